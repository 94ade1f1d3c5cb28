// How links open: the handshake of net/session, in frames of its own kind.
#include <algorithm>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/shmem/messages/links.h>

namespace towpath::shmem {
namespace {

/// Ways that others began with a hello that holds, and have not confirmed, for each PE. More than
/// one: a PE with several addresses is dialled by them all, and a hello may be repeated by others.
constexpr std::size_t kMaxHalfOpenPerPe = 4;

AgentIdentity identity_of(std::uint32_t pe, std::uint64_t instance) {
  return {.name = cat("PE ", pe), .incarnation = instance};
}

}  // namespace

net::SessionParty Links::self() const {
  return {.agent = identity_of(here_.my_pe, instance_), .instance = instance_, .data = {}};
}

std::unique_ptr<net::MessageBuffer> Links::handshake_frame(ConstByteSpan message) {
  auto buffer = worker_->buffers().take();
  const std::size_t head = head_bytes(0);
  encode_head({.kind = FrameKind::handshake, .from = here_.my_pe}, {}, buffer->room().first(head));
  std::ranges::copy(message, buffer->room().begin() + static_cast<std::ptrdiff_t>(head));
  buffer->size = head + message.size();
  buffer->body_bytes = message.size();
  return buffer;
}

Status Links::dial(Link& link) {
  link.path = std::make_unique<Path>(link);
  TOWPATH_TRY(
      link.path->dialling,
      net::DialHandshake::begin(terms(), self(),
                                {identity_of(link.pe, link.place.instance), link.place.instance}));
  TOWPATH_TRY(link.path->endpoint,
              worker_->connect(link.place.address, handshake_frame(link.path->dialling->hello()),
                               link.path.get()));
  return {};
}

// A hello is answered, an answer confirmed; a confirmation opens the link.
Status Links::take_handshake(const Frame& frame, std::uint64_t from, ConstByteSpan message) {
  const auto found = links_.find(frame.header.from);
  if (found == links_.end())
    return error(Code::denied, cat("a handshake of PE ", frame.header.from, ", which is none"));
  Link& link = found->second;
  if (link.is_open || !link.is_up())
    return error(Code::denied, cat("a handshake of PE ", link.pe, ", which is known already"));
  if (link.pe > here_.my_pe) {
    if (!has_connections_ && link.path != nullptr) return take_answer(*link.path, from, message);
    return error(Code::denied, cat("a hello of PE ", link.pe, ", which is dialled from here"));
  }
  const Status confirmed = take_confirmation(link, from, message);
  return confirmed.code() == Code::not_found ? accept(link, from, message) : confirmed;
}

// ---- The side that dials

Status Links::on_answer(void* owner, const net::Message& message, ConstByteSpan body) {
  Path& path = *static_cast<Path*>(owner);
  TOWPATH_TRY(const Frame frame, decode_frame(message.head, body.size()));
  if (frame.header.kind != FrameKind::handshake || frame.header.from != path.link.pe)
    return error(Code::denied, "no answer to a hello");
  return take_answer(path, message.from, body);
}

Status Links::take_answer(Path& path, std::uint64_t from, ConstByteSpan answer) {
  if (!path.dialling) return error(Code::denied, "an answer that nobody waits for");
  TOWPATH_TRY(const auto outcome, path.dialling->take(answer));
  path.connection = from;
  path.dialling.reset();
  confirm(path.link, outcome.keys);
  TOWPATH_TRY(path.endpoint->send(handshake_frame(outcome.confirmation)));
  // What is sent behind the confirmation may overtake it where there is no connection: there the
  // link opens when the other's first frame shows that it has the keys.
  if (has_connections_) open(path.link);
  return {};
}

// ---- The side that is dialled

Status Links::accept(Link& link, std::uint64_t from, ConstByteSpan hello) {
  TOWPATH_TRY(auto accepting, net::AcceptHandshake::begin(terms(), self(), hello));
  if (accepting.dialler().agent != identity_of(link.pe, link.place.instance))
    return error(Code::denied, cat("a hello of ", to_string(accepting.dialler().agent),
                                   " in the name of PE ", link.pe));
  const auto is_of_it = [&](const auto& path) { return &path->link == &link && !path->is_idle; };
  if (std::ranges::count_if(half_open_, is_of_it) >= std::ptrdiff_t{kMaxHalfOpenPerPe})
    return error(Code::exhausted,
                 cat("PE ", link.pe, " has begun ", kMaxHalfOpenPerPe, " times and not confirmed"));
  auto path = std::make_unique<Path>(link);
  path->connection = from;
  auto answer = handshake_frame(accepting.answer());
  path->accepting.emplace(std::move(accepting));
  if (has_connections_) {
    TOWPATH_TRY(path->endpoint, worker_->answer(from, path.get()));
    TOWPATH_TRY(path->endpoint->send(std::move(answer)));
  } else {
    TOWPATH_TRY(path->endpoint,
                worker_->connect(link.place.address, std::move(answer), path.get()));
  }
  half_open_.push_back(std::move(path));
  return {};
}

// Errors: not_found: it is none.
Status Links::take_confirmation(Link& link, std::uint64_t from, ConstByteSpan confirmation) {
  Status last = error(Code::not_found, "no handshake waits for it");
  for (std::unique_ptr<Path>& path : half_open_) {
    if (&path->link != &link || path->connection != from || path->is_idle) continue;
    const auto keys = path->accepting->take(confirmation);
    if (!keys.ok()) {
      // Where there is no connection it may be another hello.
      if (has_connections_) last = keys.status();
      continue;
    }
    confirm(link, *keys);
    link.path = std::move(path);
    std::erase(half_open_, nullptr);
    for (const auto& other : half_open_) other->is_idle |= &other->link == &link;
    link.path->accepting.reset();
    link.path->endpoint->admit();
    open(link);
    return {};
  }
  return last;
}

// ---- Both

void Links::confirm(Link& link, const net::SessionKeys& keys) {
  link.sealer = net::Sealer(keys.sending);
  link.seals = net::SealReader(
      keys.receiving, has_connections_ ? net::Delivery::ordered : net::Delivery::unordered);
  link.heard_at = clock_.now();
}

void Links::open(Link& link) {
  link.is_open = true;
  (void)send(link,
             {.kind = FrameKind::hello, .operand = mine().pid.load(std::memory_order_relaxed)});
}

void Links::refuse(std::string_view whom, const Status& why) {
  log_.warning("refused", {{"whom", std::string(whom)}, {"why", why.to_string()}});
}

void Links::on_refused(std::string_view address, const Status& why) { refuse(address, why); }

}  // namespace towpath::shmem
