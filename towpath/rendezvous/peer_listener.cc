#include <algorithm>
#include <utility>
#include <vector>

#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/net/endpoint.h>
#include <towpath/net/framed_connection.h>
#include <towpath/net/hello.h>
#include <towpath/rendezvous/check_user.h>
#include <towpath/rendezvous/peer_listener.h>
#include <towpath/rendezvous/poller_tags.h>

namespace towpath::rendezvous {

namespace {

constexpr std::uint64_t kListenerTag = 0;
constexpr std::uint64_t kFirstClientTag = 2;
// What one call of progress() does at most, so that a flood does not keep its caller from the rest.
constexpr int kAcceptsPerProgress = 64;
constexpr std::size_t kBytesPerServe = std::size_t{256} << 10U;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

Status check_proof(const PeerListenerOptions& options, const net::Listener& listener) {
  if (net::is_local(options.address)) return {};
  if (!options.tls)
    return error(Code::denied,
                 cat(net::to_string(options.address),
                     " needs a token: all processes that reach it could ask for metadata"),
                 "give all agents the same token, or listen at a Unix socket");
  if (!options.loopback_only || !listener.is_reachable_from_outside()) return {};
  return error(Code::denied,
               cat(net::to_string(options.address),
                   " can be reached by other machines, which needs a token that they know"),
               "give all agents the same token file, or listen at 127.0.0.1 or [::1]");
}

}  // namespace

struct PeerListener::Client {
  net::FramedConnection connection;
  Instant ends_at;  // dropped then, unless an exchange ends before
  net::Source source;
  Instant silent_since;  // since our last answer to its handshake
  bool has_spoken = false;
  bool has_greeted = false;  // and so has proven itself
};

Result<std::unique_ptr<PeerListener>> PeerListener::open(PeerListenerOptions options,
                                                         const Clock& clock) {
  if (options.max_clients == 0)
    return error(Code::invalid_argument, "a listener for 0 clients", "allow at least one");
  if (options.trusted_user == static_cast<uid_t>(-1)) options.trusted_user = geteuid();
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  TOWPATH_TRY(net::Listener listener, net::Listener::listen(options.address));
  TOWPATH_TRY(check_proof(options, listener));
  options.address = listener.address();
  TOWPATH_TRY(poller.add(listener.fd(), kListenerTag));
  TOWPATH_TRY(poller.add(timer.fd(), kTimerTag));
  return std::unique_ptr<PeerListener>(new PeerListener(
      std::move(options), clock, std::move(listener), std::move(poller), std::move(timer)));
}

PeerListener::PeerListener(PeerListenerOptions options, const Clock& clock, net::Listener listener,
                           run::Poller poller, run::TimerFd timer)
    : options_(std::move(options)),
      clock_(&clock),
      listener_(std::move(listener)),
      poller_(std::move(poller)),
      timer_(std::move(timer)),
      next_client_(kFirstClientTag) {}

PeerListener::~PeerListener() = default;

void PeerListener::stop_listening() noexcept {
  // Closed alone it would be watched on while a forked child has it, too.
  if (listener_) (void)poller_.remove(listener_->fd());
  listener_.reset();
  accept_again_at_ = Instant::never();
}

Status PeerListener::publish(const MetadataName& name, ConstByteSpan metadata) {
  TOWPATH_TRY(check_name(name));
  TOWPATH_TRY(check_metadata(metadata));
  replies_.insert_or_assign(
      name,
      std::make_shared<const Bytes>(encode({.kind = FrameKind::metadata,
                                            .name = name,
                                            .metadata = Bytes(metadata.begin(), metadata.end())})));
  return {};
}

Status PeerListener::withdraw(const MetadataName& name) {
  const std::size_t gone =
      std::erase_if(replies_, [&](const auto& reply) { return covers(name, reply.first); });
  if (gone > 0) return {};
  return error(Code::not_found, cat(to_string(name), " was not published from here"));
}

std::size_t PeerListener::progress() {
  ended_ = 0;
  if (accept_again_at_ <= clock_->now()) resume_accepting();
  // Copied: serving may end in callbacks, and one event's client may be dropped by another's.
  const auto events = poller_.wait(Duration::zero());
  for (const run::PollEvent& event : std::vector<run::PollEvent>(events.begin(), events.end())) {
    if (event.tag == kTimerTag) {
      timer_.clear();
    } else if (event.tag == kListenerTag) {
      if (listener_) accept_newcomers();
    } else {
      serve(event.tag);
    }
  }
  drop_overdue();
  arm_timer();
  return ended_;
}

void PeerListener::accept_newcomers() {
  for (int count = 0; count < kAcceptsPerProgress; ++count) {
    auto socket = listener_->accept();
    if (!socket.ok()) {
      options_.log.warning("cannot accept a client", {{"why", socket.status().to_string()}});
      (void)make_room(std::nullopt);
      return pause_accepting();
    }
    if (!*socket) return;
    admit(*std::move(socket));
  }
}

void PeerListener::admit(sys::Fd socket) {
  counts_.accepted.add();
  const bool is_local = net::is_local(options_.address);
  if (Status status = is_local ? check_peer_user(socket.get(), options_.trusted_user) : Status();
      !status.ok())
    return refuse(status, counts_.denied);
  const net::Source source = is_local ? net::Source{} : net::source_of(net::peer_of(socket.get()));
  if (const Status room = make_room(source); !room.ok()) return refuse(room, counts_.crowded_out);
  const std::uint64_t id = next_client_++;
  if (Status status = poller_.add(socket.get(), id); !status.ok()) {
    options_.log.warning("cannot watch a client", {{"why", status.to_string()}});
    return;
  }
  const Instant now = clock_->now();
  clients_.emplace(
      id, Client{.connection = net::FramedConnection(wrap(std::move(socket)), net::kHelloLimits),
                 .ends_at = now + options_.exchange_timeout,
                 .source = source,
                 .silent_since = now});
}

std::unique_ptr<sys::ByteStream> PeerListener::wrap(sys::Fd socket) const {
  auto stream = sys::make_socket_stream(std::move(socket));
  return net::is_local(options_.address) ? std::move(stream)
                                         : options_.tls->server(std::move(stream));
}

// A listener that stays readable while nothing can be accepted would keep its caller spinning.
void PeerListener::pause_accepting() {
  if (poller_.remove(listener_->fd()).ok()) accept_again_at_ = clock_->now() + kAcceptPause;
}

void PeerListener::resume_accepting() {
  accept_again_at_ = Instant::never();
  if (!poller_.add(listener_->fd(), kListenerTag).ok())
    accept_again_at_ = clock_->now() + kAcceptPause;
}

void PeerListener::serve(std::uint64_t id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;  // dropped since the event was reported
  Client& client = found->second;
  const bool was_busy = client.connection.is_busy();
  const bool speaks = !client.has_greeted && net::has_input(client.connection.fd());
  const std::size_t ended_before = ended_;
  const std::size_t buffered_before = client.connection.buffered_bytes();
  const Status status = exchange(client);
  buffered_bytes_ += client.connection.buffered_bytes();
  buffered_bytes_ -= buffered_before;
  if (status.code() == Code::peer_lost || status.code() == Code::unavailable) return forget(found);
  if (status.code() == Code::denied) {
    refuse(status, counts_.denied);
    return forget(found);
  }
  if (!status.ok()) return drop(found, status.to_string(), counts_.malformed);
  if (client.connection.received_bytes() > options_.max_bytes_per_client)
    return drop(found, "it has sent more than one client may", counts_.crowded_out);
  if (buffered_bytes_ > options_.max_buffered_bytes)
    return drop(found, "half-read frames fill the room that there is", counts_.crowded_out);
  if (speaks) {
    client.has_spoken = true;
    client.silent_since = clock_->now();  // what we have done for it was our time, not its own
  }
  extend_deadline(client, !was_busy || ended_ != ended_before);
  (void)poller_.modify(client.connection.fd(), id, client.connection.interest());
}

// An unauthenticated connection gets no more time before its hello is whole.
void PeerListener::extend_deadline(Client& client, bool exchange_began) {
  if (!client.has_greeted) return;
  if (!client.connection.is_busy()) {
    client.ends_at = clock_->now() + options_.idle_timeout;
  } else if (exchange_began) {
    client.ends_at = clock_->now() + options_.exchange_timeout;
  }
}

// As many requests and replies as are ready, one after the other.
Status PeerListener::exchange(Client& client) {
  std::size_t budget = kBytesPerServe;
  while (true) {
    const bool had_unsent = client.connection.has_unsent();
    TOWPATH_TRY(client.connection.flush());
    if (client.connection.has_unsent()) return {};  // no next request before this reply is taken
    if (had_unsent) {
      ++ended_;
      counts_.served.add();
    }
    TOWPATH_TRY(const auto received, client.connection.receive(budget));
    if (!received) return {};
    TOWPATH_TRY(hear(client, *received));
  }
}

Status PeerListener::hear(Client& client, const net::Frame& received) {
  if (client.has_greeted) {
    TOWPATH_TRY(const Frame request, decode_frame(received.payload()));
    return answer(client, request);
  }
  TOWPATH_TRY(net::check_hello(received.payload(), kMetadataService));
  client.connection.expect(frame_limits(options_.max_metadata_bytes));
  client.has_greeted = true;
  return {};
}

Status PeerListener::answer(Client& client, const Frame& request) {
  TOWPATH_TRY(check_name(request.name));
  switch (request.kind) {
    case FrameKind::fetch: break;
    case FrameKind::publish: return answer_change(client, {request.name, request.metadata});
    case FrameKind::withdraw: return answer_change(client, {request.name, std::nullopt});
    default: return error(Code::corrupt, "a reply where a request is due");
  }
  if (const auto reply = replies_.find(request.name); reply != replies_.end()) {
    client.connection.send(reply->second);
  } else {
    client.connection.send(encode(provide(request.name)));
  }
  return {};
}

Frame PeerListener::provide(const MetadataName& name) const {
  auto metadata =
      provide_ ? provide_(name)
               : error(Code::not_found, cat(to_string(name), " is not published at this address"));
  if (metadata.ok() && check_metadata(*metadata).ok())
    return {.kind = FrameKind::metadata, .name = name, .metadata = *std::move(metadata)};
  return {.kind = FrameKind::refused,
          .name = name,
          .why = metadata.ok() ? check_metadata(*metadata) : metadata.status()};
}

Status PeerListener::answer_change(Client& client, Change change) {
  Status status = error(Code::unsupported, "this agent takes no metadata; it only gives its own");
  if (accept_) {
    const Accept accept = accept_;  // a copy: it may replace itself
    status = accept(change);
  }
  client.connection.send(encode({.kind = status.ok() ? FrameKind::done : FrameKind::refused,
                                 .name = std::move(change.name),
                                 .why = status}));
  return {};
}

void PeerListener::drop(Clients::iterator client, std::string_view why, telemetry::Counter& count) {
  count.add();
  const net::FramedConnection& connection = client->second.connection;
  options_.log.warning("client dropped", {{"why", std::string(why)},
                                          {"received_bytes", cat(connection.received_bytes())}});
  forget(client);
}

void PeerListener::refuse(const Status& why, telemetry::Counter& count) {
  count.add();
  options_.log.warning("client refused", {{"why", why.to_string()}});
}

void PeerListener::forget(Clients::iterator client) {
  buffered_bytes_ -= client->second.connection.buffered_bytes();
  (void)poller_.remove(client->second.connection.fd());
  clients_.erase(client);
}

// For a newcomer of that source, or, without one, because no descriptor is free.
Status PeerListener::make_room(const std::optional<net::Source>& newcomer) {
  const bool is_local = net::is_local(options_.address);
  std::vector<net::Unproven> unproven;
  for (const auto& [id, client] : clients_) {
    if (client.has_greeted) continue;
    unproven.push_back({.id = id,
                        .socket = client.connection.fd(),
                        .source = client.source,
                        .has_spoken = client.has_spoken,
                        .silent_since = client.silent_since,
                        .silent_at_least = is_local ? Duration::zero() : kSilenceInTls});
  }
  const std::size_t most = options_.max_clients;
  TOWPATH_TRY(const auto displaced,
              net::displaced_by(newcomer, {.unproven = unproven,
                                           .most_per_source =
                                               is_local ? most : std::max<std::size_t>(most / 2, 1),
                                           .is_full = !newcomer || clients_.size() >= most,
                                           .now = clock_->now()}));
  if (displaced)
    drop(clients_.find(*displaced),
         newcomer ? "a newcomer needs its place" : "no descriptor is free", counts_.crowded_out);
  return {};
}

void PeerListener::drop_overdue() {
  const Instant now = clock_->now();
  for (auto client = clients_.begin(); client != clients_.end();) {
    const auto current = client++;
    if (current->second.ends_at > now) continue;
    drop(current, current->second.connection.is_busy() ? "its exchange takes too long" : "silent",
         counts_.overdue);
  }
}

void PeerListener::arm_timer() {
  Instant first = accept_again_at_;
  for (const auto& [id, client] : clients_) first = std::min(first, client.ends_at);
  timer_.arm(first);
}

}  // namespace towpath::rendezvous
