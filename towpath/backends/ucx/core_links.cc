#include <algorithm>
#include <utility>

#include <towpath/backends/ucx/core.h>
#include <towpath/core/text.h>
#include <towpath/sys/random.h>

namespace towpath::backends::ucx {

using namespace backend;

namespace {

constexpr std::size_t kMaxLinks = 4096;
/// Answers that wait for a peer who does not read them. He asked for no more than a window.
constexpr std::size_t kMaxUnsent = 16 * kWindow;

}  // namespace

// ---- Links

Link* UcxBackend::find_instance(std::uint64_t instance) {
  const auto found = std::ranges::find_if(links_, [&](const auto& entry) {
    return entry.second->info.instance == instance && !entry.second->lost;
  });
  return found == links_.end() ? nullptr : found->second.get();
}

Result<Link*> UcxBackend::make_link(ConnectionInfo info, const AgentIdentity& peer) {
  if (links_.size() >= kMaxLinks)
    return error(Code::exhausted, cat("there are ", links_.size(), " peers already"));
  auto link = std::make_unique<Link>(sys::random_u64(), std::move(info));
  Link& made = *link;
  made.peer = peer;
  made.heard_at = clock_.now();
  TOWPATH_TRY(made.endpoint, worker_->connect(made.info.address, &made));
  links_.emplace(made.session, std::move(link));
  return &made;
}

void UcxBackend::erase(Link& link) {
  by_peer_session_.erase(link.peer_session);
  links_.erase(link.session);
}

Result<std::unique_ptr<Connection>> UcxBackend::connect(const AgentIdentity& peer,
                                                        ConstByteSpan bytes) {
  TOWPATH_TRY(ConnectionInfo info, decode_connection_info(bytes));
  if (info.instance == info_.instance || peer == self_) {
    if (peer == self_ && info.instance == info_.instance)
      return std::make_unique<UcxConnection>(*this, nullptr);
    return error(Code::corrupt, cat("the info given for ", to_string(peer), " is that of ",
                                    info.instance == info_.instance ? "this agent" : "another"));
  }
  Link* link = find_instance(info.instance);
  if (link != nullptr && link->peer != peer) {
    return error(Code::corrupt, cat("the info given for ", to_string(peer), " is that of ",
                                    to_string(link->peer)));
  }
  if (link == nullptr) {
    TOWPATH_TRY(link, make_link(std::move(info), peer));
    say_hello(*link, 0);
  } else if (link->up) {
    link->heard_at = clock_.now();  // nobody used it: silence meant nothing
    send_plain(*link, FrameKind::alive, kInUse | kAnswerMe);
  }
  auto connection = std::make_unique<UcxConnection>(*this, link);
  link->connections.push_back(connection.get());
  return connection;
}

void UcxBackend::drop_connection(UcxConnection& connection) {
  if (connection.link == nullptr) return;
  Link& link = *connection.link;
  std::erase(link.connections, &connection);
  if (link.lost && link.connections.empty()) erase(link);
}

void UcxBackend::teardown(Connection& connection) {
  Link* link = static_cast<UcxConnection&>(connection).link;
  if (link == nullptr || link->lost) return;
  break_off(*link, error(Code::peer_lost,
                         cat("the connection to ", to_string(link->peer), " was torn down")));
  tell_losses();
  courier_->deliver();
}

void UcxBackend::on_broken(void* owner, const Status& why) {
  if (closing_) return;
  Link& link = *static_cast<Link*>(owner);
  broken_.emplace_back(link.session, error(Code::peer_lost, cat("the connection to ",
                                                                to_string(link.peer), " broke"))
                                         .because(why));
}

// From now on nothing is sent or heard over it. The rest is done by tell_losses(), outside of UCX.
void UcxBackend::break_off(Link& link, Status why) {
  if (link.lost) return;
  link.lost = true;
  link.up = false;
  link.why = std::move(why);
  broken_.emplace_back(link.session, link.why);
}

void UcxBackend::tell_losses() {
  while (!broken_.empty()) {
    auto [session, why] = std::move(broken_.back());
    broken_.pop_back();
    const auto found = links_.find(session);
    if (found == links_.end() || found->second->endpoint == nullptr) continue;
    Link& link = *found->second;
    link.lost = true;
    link.up = false;
    if (link.why.ok()) link.why = why;
    link.endpoint.reset();
    by_peer_session_.erase(link.peer_session);
    if (link.connections.empty()) {
      links_.erase(found);
      continue;
    }
    const Status told =
        link.why;  // the events may drop connections, and with the last one the link
    courier_->stop_all(link, told);
    for (Connection* connection : std::vector(link.connections))
      events_.on_peer_lost(*connection, told);
  }
}

// ---- Frames out

void UcxBackend::send(Link& link, std::unique_ptr<net::MessageBuffer> buffer) {
  if (link.lost || link.endpoint == nullptr) return worker_->buffers().give_back(std::move(buffer));
  link.sent_at = clock_.now();
  Status sent = link.endpoint->send(std::move(buffer));
  if (!sent.ok()) break_off(link, std::move(sent));
}

void UcxBackend::send_plain(Link& link, FrameKind kind, std::uint8_t flags, std::uint64_t id) {
  auto buffer = worker_->buffers().take();
  FrameHeader header = link.header(kind, clock_.now());
  header.flags |= flags;
  header.id = id;
  buffer->size = FrameWriter(buffer->room(), header).finish();
  send(link, std::move(buffer));
}

void UcxBackend::say_hello(Link& link, std::uint64_t your_session) {
  auto buffer = worker_->buffers().take();
  FrameWriter frame(buffer->room(), link.header(FrameKind::hello, clock_.now()));
  frame.append(encode(Hello{info_, self_, your_session}));
  buffer->size = frame.finish();
  send(link, std::move(buffer));
}

// ---- Frames in

void UcxBackend::on_message(ConstByteSpan message) {
  if (closing_) return;
  const auto frame = decode_frame(message);
  if (!frame.ok()) {
    log_.warning("message dropped", {{"why", frame.status().to_string()}});
    return;
  }
  if (frame->header.kind == FrameKind::hello) return take_hello(*frame);
  const auto found = by_peer_session_.find(frame->header.session);
  if (found == by_peer_session_.end() || found->second->lost) return;  // of a life that is over
  found->second->heard(frame->header, clock_.now());
  take(*found->second, *frame);
}

void UcxBackend::take_hello(const Frame& frame) {
  auto hello = decode_hello(frame.payload);
  const std::uint64_t session = frame.header.session;
  if (!hello.ok() || session == 0 || hello->info.instance == info_.instance) {
    log_.warning("hello dropped", {{"why", hello.status().to_string()}});
    return;
  }
  const auto known = links_.find(hello->your_session);
  Link* link = hello->your_session == 0 ? find_instance(hello->info.instance)
               : known != links_.end()  ? known->second.get()
                                        : nullptr;
  if (link != nullptr && link->peer_session != 0 && link->peer_session != session) {
    break_off(*link, error(Code::peer_lost, cat(to_string(link->peer), " connected anew")));
    link = nullptr;
  }
  if (link == nullptr) {
    if (hello->your_session != 0) return;  // an answer to a life that is over
    auto made = make_link(std::move(hello->info), hello->from);
    if (!made.ok()) {
      log_.warning("a peer was refused", {{"why", made.status().to_string()}});
      return;
    }
    link = *made;
  }
  if (link->lost) return;
  if (hello->from != link->peer) {
    return break_off(*link, error(Code::peer_lost, cat("in place of ", to_string(link->peer), " ",
                                                       to_string(hello->from), " answers")));
  }
  link->peer_session = session;
  by_peer_session_[session] = link;
  link->up = true;
  link->heard(frame.header, clock_.now());
  if (hello->your_session == 0) say_hello(*link, session);
}

void UcxBackend::take(Link& link, const Frame& frame) {
  switch (frame.header.kind) {
    case FrameKind::write:
    case FrameKind::read: return answer(link, frame);
    case FrameKind::wrote:
    case FrameKind::data:
      if (Status fits = courier_->take(link, frame); !fits.ok()) break_off(link, std::move(fits));
      return;
    case FrameKind::note: return take_note(link, frame);
    case FrameKind::noted: return take_noted(link, frame.header.id);
    case FrameKind::alive:
      if ((frame.header.flags & kAnswerMe) != 0) send_plain(link, FrameKind::alive);
      return;
    case FrameKind::bye:
      return break_off(
          link, error(Code::peer_lost, cat(to_string(link.peer), " has closed its ucx backend")));
    case FrameKind::hello: return;  // on_message() has seen to it
  }
}

// The one place where bytes land in this side's registered memory, or leave it, for a peer.
void UcxBackend::answer(Link& link, const Frame& request) {
  if (link.endpoint->unsent() > kMaxUnsent) {
    return break_off(link, error(Code::peer_lost, cat(to_string(link.peer),
                                                      " asks for more than it "
                                                      "takes: ",
                                                      link.endpoint->unsent(), " answers wait")));
  }
  const bool is_write = request.header.kind == FrameKind::write;
  const Instant now = clock_.now();
  FrameHeader header = link.header(is_write ? FrameKind::wrote : FrameKind::data, now);
  header.id = request.header.id;
  auto buffer = worker_->buffers().take();
  FrameWriter frame(buffer->room(), header);
  if (is_write) {
    Grant grant([&] { return is_fresh(request.header.echo, clock_.now(), timing_); });
    if (!owner_.place(request, frame, grant)) frame.flag(kStale);
  } else {
    owner_.gather(request, frame);
  }
  buffer->size = frame.finish();
  send(link, std::move(buffer));
}

}  // namespace towpath::backends::ucx
