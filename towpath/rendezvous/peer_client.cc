#include <algorithm>
#include <utility>
#include <vector>

#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/net/endpoint.h>
#include <towpath/net/framed_connection.h>
#include <towpath/net/hello.h>
#include <towpath/rendezvous/check_user.h>
#include <towpath/rendezvous/peer_client.h>
#include <towpath/rendezvous/poller_tags.h>

namespace towpath::rendezvous {

namespace {

constexpr std::uint64_t kWakerTag = 0;
constexpr FetchId kFirstRequest = 2;
constexpr std::size_t kBytesPerStep = std::size_t{256} << 10U;
// A listener whose queue is full notifies nobody when it has room again (unix(7): EAGAIN).
constexpr Duration kConnectAgain = std::chrono::milliseconds(2);
// Between two connections that are closed without a word: doubled from the first to the last.
constexpr Duration kShortestPause = std::chrono::milliseconds(10);
constexpr Duration kLongestPause = std::chrono::milliseconds(160);

// How long an address of several may take to connect before the next is tried: doubled from the
// first to the last. Source: RFC 8305, section 5 (Connection Attempt Delay).
constexpr Duration kShortestTurn = std::chrono::milliseconds(250);
constexpr Duration kLongestTurn = std::chrono::seconds(2);

// What a reply means as the answer to `request`.
Result<Bytes> meaning(const Frame& request, Frame reply) {
  if (reply.kind == FrameKind::refused) return reply.why;
  const auto wanted = request.kind == FrameKind::fetch ? FrameKind::metadata : FrameKind::done;
  if (reply.kind != wanted || reply.name != request.name)
    return error(Code::corrupt,
                 cat("the reply of kind ", static_cast<int>(reply.kind), " for ",
                     to_string(reply.name), " is no answer"),
                 "another program listens at this address");
  return std::move(reply.metadata);
}

// Nobody listens; or what else went wrong on the way there.
Status explain(const net::Address& address, const Status& failed) {
  const std::string where = net::to_string(address);
  switch (failed.code()) {
    case Code::not_found:
    case Code::unavailable:
      return error(net::is_local(address) ? Code::not_found : Code::unavailable,
                   cat("nobody listens at ", where),
                   "start that agent, or check its name, scope or address")
          .because(failed);
    case Code::peer_lost:
      return error(Code::unavailable, cat(where, " closed without an answer"),
                   "try again, and see that both sides are of the same release")
          .because(failed);
    default: return failed;
  }
}

}  // namespace

struct PeerClient::Request {
  net::Address address;
  Frame frame;
  run::Deadline deadline;
  FetchDone done;
  std::vector<net::Endpoint> endpoints;        // of a TCP address; tried in turn
  std::shared_ptr<const net::TlsContext> tls;  // the same
  std::size_t endpoint = 0;
  std::optional<net::FramedConnection> connection;
  bool watches_writable = false;
  Instant leave_at = Instant::never();  // for the next endpoint, if this one is not connected then
  Duration turn = kShortestTurn;
  Instant connect_at{0};  // not before
  Status put_off;         // why a local address was not connected to, the last time
  Status closed;          // how the last one ended that was closed without a word
  Duration pause = kShortestPause;
};

Result<std::unique_ptr<PeerClient>> PeerClient::open(PeerClientOptions options,
                                                     const Clock& clock) {
  if (options.trusted_user == static_cast<uid_t>(-1)) options.trusted_user = geteuid();
  TOWPATH_TRY(auto waker, run::Waker::open());
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  TOWPATH_TRY(poller.add(waker->fd(), kWakerTag));
  TOWPATH_TRY(poller.add(timer.fd(), kTimerTag));
  return std::unique_ptr<PeerClient>(
      new PeerClient(options, clock, std::move(waker), std::move(poller), std::move(timer)));
}

PeerClient::PeerClient(PeerClientOptions options, const Clock& clock,
                       std::unique_ptr<run::Waker> waker, run::Poller poller, run::TimerFd timer)
    : options_(options),
      clock_(&clock),
      waker_(std::move(waker)),
      poller_(std::move(poller)),
      timer_(std::move(timer)),
      next_request_(kFirstRequest) {}

PeerClient::~PeerClient() = default;

Result<FetchId> PeerClient::fetch(const net::Address& from, const MetadataName& name,
                                  run::Deadline deadline, FetchDone done) {
  return begin({.address = from,
                .frame = {.kind = FrameKind::fetch, .name = name},
                .deadline = deadline,
                .done = std::move(done)});
}

Result<FetchId> PeerClient::push(const net::Address& to, const Change& change,
                                 run::Deadline deadline, PushDone done) {
  return begin({.address = to,
                .frame = {.kind = change.metadata ? FrameKind::publish : FrameKind::withdraw,
                          .name = change.name,
                          .metadata = change.metadata.value_or(Bytes())},
                .deadline = deadline,
                .done = [done = std::move(done)](Result<Bytes> reply) { done(reply.status()); }});
}

Result<FetchId> PeerClient::begin(Request request) {
  TOWPATH_TRY(check_name(request.frame.name));
  TOWPATH_TRY(check_metadata(request.frame.metadata));
  if (requests_.size() >= options_.max_requests)
    return error(Code::exhausted, cat(requests_.size(), " requests are under way"),
                 "wait for some to end, or raise max_requests");
  if (const auto* tcp = std::get_if<net::TcpAddress>(&request.address)) {
    TOWPATH_TRY(request.tls, net::context_from(options_.tls));
    TOWPATH_TRY(request.endpoints, net::resolve(*tcp));
  }
  const FetchId id = next_request_++;
  requests_.emplace(id, std::move(request));
  waker_->wake();
  return id;
}

void PeerClient::cancel(FetchId request) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  close(found->second);
  requests_.erase(found);
}

void PeerClient::cancel_fetches() {
  for (auto each = requests_.begin(); each != requests_.end();) {
    const auto current = each++;
    if (current->second.frame.kind == FrameKind::fetch) cancel(current->first);
  }
}

// A forked child may have the socket too, and what both have is watched until the child closes it.
void PeerClient::close(Request& request) {
  if (!request.connection) return;
  (void)poller_.remove(request.connection->fd());
  request.connection.reset();
}

std::size_t PeerClient::progress() {
  if (requests_.empty()) {
    waker_->clear();  // of what was cancelled
    if (timer_.armed_at() != Instant::never()) timer_.clear();
    return 0;
  }
  const Instant now = clock_->now();
  std::vector<FetchId> due;
  for (const run::PollEvent& event : poller_.wait(Duration::zero())) {
    if (event.tag >= kFirstRequest) due.push_back(event.tag);
  }
  waker_->clear();
  timer_.clear();
  for (const auto& [id, request] : requests_) {
    const Instant turn = request.connection ? request.leave_at : request.connect_at;
    if (request.deadline.at() <= now || turn <= now) due.push_back(id);
  }
  std::size_t called = 0;
  for (const FetchId id : due) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) continue;  // answered already, or cancelled by a callback
    auto metadata = step(id, found->second);
    if (metadata.ok() && !*metadata) continue;
    const FetchDone done = std::move(found->second.done);
    cancel(id);
    if (metadata.ok()) {
      done(**std::move(metadata));
    } else {
      done(metadata.status());
    }
    ++called;
  }
  arm_timer();
  return called;
}

// The answer, or nothing while there is none.
Result<std::optional<Bytes>> PeerClient::step(FetchId id, Request& request) {
  if (request.connection && request.leave_at <= clock_->now()) leave_endpoint(request);
  if (!request.connection && request.connect_at <= clock_->now()) TOWPATH_TRY(connect(id, request));
  if (request.connection) {
    TOWPATH_TRY(auto metadata, talk(id, request));
    if (metadata) return metadata;
  }
  if (!request.deadline.expired(*clock_)) return std::optional<Bytes>();
  if (!request.closed.ok()) return explain(request.address, request.closed);
  Status late =
      error(Code::timed_out,
            cat(net::to_string(request.address),
                request.connection ? " does not answer" : " was not reached", " about ",
                to_string(request.frame.name)),
            "see whether that agent still makes progress, and whether a firewall stands between");
  return request.put_off.ok() ? late : std::move(late).because(request.put_off);
}

Result<std::unique_ptr<sys::ByteStream>> PeerClient::reach(const Request& request) const {
  if (request.tls) {
    TOWPATH_TRY(auto plain, net::connect(request.endpoints[request.endpoint]));
    return request.tls->client(std::move(plain), std::get<net::TcpAddress>(request.address).host);
  }
  TOWPATH_TRY(auto stream, sys::connect_stream(std::get<sys::LocalAddress>(request.address)));
  TOWPATH_TRY(check_peer_user(stream->fd(), options_.trusted_user));
  return stream;
}

Status PeerClient::connect(FetchId id, Request& request) {
  auto stream = reach(request);
  if (stream.code() == Code::exhausted && net::is_local(request.address)) {
    request.connect_at = clock_->now() + kConnectAgain;
    request.put_off = stream.status();
    return {};
  }
  if (!stream.ok())
    return try_next_endpoint(request, stream.status()) ? Status()
                                                       : explain(request.address, stream.status());
  TOWPATH_TRY(poller_.add((*stream)->fd(), id, {.readable = true, .writable = true}));
  request.connection.emplace(*std::move(stream), frame_limits(options_.max_metadata_bytes));
  request.watches_writable = true;
  request.put_off = {};
  const bool is_only = request.endpoints.size() < 2;
  request.leave_at = is_only ? Instant::never() : clock_->now() + request.turn;
  request.turn = std::min(2 * request.turn, kLongestTurn);
  request.connection->send(net::make_hello(kMetadataService));
  request.connection->send(encode(request.frame));
  return {};
}

// A name may stand for several addresses, and somebody listens at one of them only.
bool PeerClient::try_next_endpoint(Request& request, const Status& failed) {
  if (failed.code() != Code::unavailable || request.endpoints.size() < 2) return false;
  request.endpoints.erase(request.endpoints.begin() +
                          static_cast<std::ptrdiff_t>(request.endpoint));
  request.endpoint %= request.endpoints.size();
  close(request);
  request.connect_at = clock_->now();
  waker_->wake();
  return true;
}

// A dead address must not use up the time of all; it has another turn if no other connects.
void PeerClient::leave_endpoint(Request& request) {
  request.leave_at = Instant::never();
  const bool is_connected = net::peer_of(request.connection->fd()).storage.ss_family != AF_UNSPEC;
  if (is_connected) return;
  request.endpoint = (request.endpoint + 1) % request.endpoints.size();
  close(request);
  request.connect_at = clock_->now();
}

// Closed in the middle of an answer it had a place: that is a failure, which is reported.
bool PeerClient::connect_again(Request& request, const Status& failed) {
  if (failed.code() != Code::peer_lost || request.connection->received_bytes() > 0) return false;
  close(request);
  request.closed = failed;
  request.connect_at = clock_->now() + request.pause;
  request.pause = std::min(2 * request.pause, kLongestPause);
  return true;
}

Result<std::optional<Bytes>> PeerClient::talk(FetchId id, Request& request) {
  net::FramedConnection& connection = *request.connection;
  const Status sent = connection.flush();
  std::size_t budget = kBytesPerStep;
  // Read even if writing failed: a listener that refuses says why before it closes.
  auto received = connection.receive(budget);
  if (received.ok() && *received) {
    TOWPATH_TRY(Frame reply, decode_frame((*received)->payload()));
    TOWPATH_TRY(Bytes metadata, meaning(request.frame, std::move(reply)));
    return std::optional<Bytes>(std::move(metadata));
  }
  if (const Status failed = sent.ok() ? received.status() : sent; !failed.ok()) {
    if (try_next_endpoint(request, failed) || connect_again(request, failed))
      return std::optional<Bytes>();
    return explain(request.address, failed);
  }
  // During a handshake it is the other side's turn: a socket that can be written would spin us.
  if (const bool writes = connection.interest().writable;
      writes != std::exchange(request.watches_writable, writes))
    TOWPATH_TRY(poller_.modify(connection.fd(), id, {.readable = true, .writable = writes}));
  return std::optional<Bytes>();
}

void PeerClient::arm_timer() {
  Instant first = Instant::never();
  for (const auto& [id, request] : requests_) {
    first = std::min(first, request.deadline.at());
    first = std::min(first, request.connection ? request.leave_at : request.connect_at);
  }
  timer_.arm(first);
}

}  // namespace towpath::rendezvous
