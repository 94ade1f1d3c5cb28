#include <algorithm>
#include <utility>
#include <vector>

#include <towpath/net/endpoint.h>
#include <towpath/net/tcp/tcp_newcomers.h>

namespace towpath::net {
namespace {

/// Until then what has come of them will have been read.
constexpr Duration kOurTurn = std::chrono::milliseconds(100);

}  // namespace

TcpNewcomers::TcpNewcomers(TcpLoop& loop, MessageListener& listener, Options options)
    : loop_(loop),
      listener_(listener),
      options_(std::move(options)),
      most_(sys::share_of_descriptors(4, kMost)) {}

TcpNewcomers::~TcpNewcomers() {
  while (!all_.empty()) (void)remove(all_.begin());
  loop_.wake(*this, Instant::never());
}

// ---- Coming and going

void TcpNewcomers::let_in(sys::Fd socket) {
  const Endpoint peer = peer_of(socket.get());
  const Source source = source_of(peer);
  const Instant now = loop_.now();
  const std::string where = to_string(to_address(peer));
  if (const Status room = make_room(source, now); !room.ok())
    return listener_.on_refused(where, room);
  const auto tag = loop_.add(socket.get(), *this);
  if (!tag.ok()) return listener_.on_refused(where, tag.status());
  auto stream = sys::make_socket_stream(std::move(socket));
  if (options_.tls) stream = options_.tls->server(std::move(stream));
  if (all_.empty()) loop_.wake(*this, now + kSaidNothing.at_most);
  all_.emplace(*tag, Newcomer{.stream = std::move(stream),
                              .source = source,
                              .where = where,
                              .silent_since = now,
                              .first = TcpFirstMessage(options_.first_bytes)});
  hear(*tag);  // who means it has spoken already
}

Status TcpNewcomers::make_room(const Source& source, Instant now) {
  std::vector<Unproven> all;
  all.reserve(all_.size());
  for (const auto& [tag, one] : all_)
    all.push_back({.id = tag,
                   .socket = one.stream->fd(),
                   .source = one.source,
                   .has_spoken = one.pieces > 0,
                   .silent_since = one.silent_since,
                   .silent_at_least = allowed_silence(one).at_least});
  TOWPATH_TRY(const auto displaced, displaced_by(source, {.unproven = all,
                                                          .most_per_source = kMostPerSource,
                                                          .is_full = all_.size() >= most_,
                                                          .now = now}));
  if (displaced)
    drop(all_.find(*displaced),
         error(Code::exhausted, "it has proven nothing, and another takes its place"));
  return {};
}

const TcpNewcomers::Silence& TcpNewcomers::allowed_silence(
    const Newcomer& newcomer) const noexcept {
  if (newcomer.pieces > 0) return kSpeaks;
  return options_.tls ? kSaidNothingInTls : kSaidNothing;
}

std::unique_ptr<sys::ByteStream> TcpNewcomers::remove(All::iterator newcomer) {
  auto stream = std::move(newcomer->second.stream);
  loop_.remove(stream->fd(), newcomer->first);
  all_.erase(newcomer);
  if (all_.empty()) loop_.wake(*this, Instant::never());
  return stream;
}

void TcpNewcomers::drop(All::iterator newcomer, const Status& why) {
  const std::string where = std::move(newcomer->second.where);
  (void)remove(newcomer);
  listener_.on_refused(where, why);
}

std::unique_ptr<sys::ByteStream> TcpNewcomers::take(std::uint64_t from) {
  const auto found = all_.find(from);
  if (from != delivering_ || found == all_.end()) return nullptr;
  return remove(found);
}

// The alarm may come early, for one that has spoken since: it is set anew.
void TcpNewcomers::on_wake(Instant now) {
  Instant next = Instant::never();
  for (auto one = all_.begin(); one != all_.end();) {
    const auto newcomer = one++;
    const Duration silence = now - newcomer->second.silent_since;
    const Duration left = allowed_silence(newcomer->second).at_most - silence;
    if (left > Duration::zero()) {
      next = std::min(next, now + left);
    } else if (has_input(newcomer->second.stream->fd())) {
      next = std::min(next, now + kOurTurn);
    } else {
      drop(newcomer, error(Code::timed_out, "it has proven nothing, and says no more"));
    }
  }
  loop_.wake(*this, next);
}

// ---- What they say

void TcpNewcomers::hear(std::uint64_t tag) {
  const auto found = all_.find(tag);
  const bool speaks = has_input(found->second.stream->fd());
  const auto whole = found->second.first.read(*found->second.stream);
  if (!whole.ok()) return drop(found, whole.status());
  // What we have done for it was our time, not its own.
  if (speaks && found->second.pieces++ < kMostPieces) found->second.silent_since = loop_.now();
  if (!*whole) return;
  const TcpFirstMessage first = std::move(found->second.first);  // the listener may take the rest
  delivering_ = tag;
  deliver({.head = first.head(), .body_bytes = first.body().size(), .from = tag}, first.body(),
          listener_);
  delivering_ = 0;
  const auto unanswered = all_.find(tag);
  if (unanswered != all_.end()) (void)remove(unanswered);
}

}  // namespace towpath::net
