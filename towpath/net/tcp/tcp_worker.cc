#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <towpath/core/text.h>
#include <towpath/net/listener.h>
#include <towpath/net/tcp/tcp_endpoint.h>
#include <towpath/net/tcp/tcp_incoming.h>
#include <towpath/net/tcp/tcp_loop.h>
#include <towpath/net/tcp/tcp_worker.h>
#include <towpath/sys/random.h>

namespace towpath::net {
namespace {

/// Connections that have not shown the secret; one more, and the oldest has to go.
constexpr std::size_t kMostStrangers = 64;
constexpr std::size_t kMostIncoming = 8192;
constexpr std::size_t kAcceptedPerTurn = 64;

class TcpWorker final : public MessageWorker, private TcpSocketOwner {
 public:
  TcpWorker(const TcpOptions& options, MessageListener& listener)
      : limits_{options.head_bytes, options.body_bytes},
        listener_(listener),
        buffers_(options.head_bytes + options.body_bytes) {}
  ~TcpWorker() override;

  Status open(const TcpOptions& options);
  ConstByteSpan address() const noexcept override { return address_; }
  MessageBuffers& buffers() noexcept override { return buffers_; }
  Result<std::unique_ptr<MessageEndpoint>> connect(ConstByteSpan address, void* owner) override;
  bool progress() override;
  bool arm() override { return true; }  // what is not dealt with is told again
  int fd() const noexcept override { return loop_->fd(); }

 private:
  void on_event(const run::PollEvent& event) override;
  /// Where others come in: one for all addresses, or one for each that was chosen.
  struct Port {
    Listener listener;
    std::uint64_t tag = 0;  ///< 0: nobody is let in for now
  };
  Result<std::vector<Endpoint>> open_ports(const std::vector<std::string>& devices);
  void accept(Port& port);
  void let_in(sys::Fd socket);
  void open_again();
  void end(std::uint64_t tag, const Status& why);
  bool make_room();

  const TcpIncoming::Limits limits_;
  MessageListener& listener_;
  MessageBuffers buffers_;
  std::optional<Token> secret_;
  std::uint64_t instance_ = 0;
  Bytes address_;
  std::optional<TcpLoop> loop_;
  std::vector<Port> ports_;
  std::map<std::uint64_t, std::unique_ptr<TcpIncoming>> incoming_;  ///< by tag, the oldest first
};

/// By which others may come.
Result<std::vector<Endpoint>> places_of(const std::vector<std::string>& devices) {
  std::vector<Endpoint> places;
  for (const std::string& device : devices) {
    TOWPATH_TRY(const auto own,
                device == "lo" ? Result(std::vector<Endpoint>()) : own_endpoints(device));
    if (own.empty() && device != "lo") {
      return error(
          Code::not_found,
          cat("the network interface '", printable(device), "' is none, is down or has no address"),
          "`ip address` lists them");
    }
    places.insert(places.end(), own.begin(), own.end());
  }
  if (devices.empty()) {
    TOWPATH_TRY(places, own_endpoints());
  }
  // Last, since it leads to others only on this host; who is not there is not mistaken for us.
  const bool has_loopback = devices.empty() || std::ranges::count(devices, "lo") > 0;
  const std::size_t most = TcpPlace::kMostEndpoints - (has_loopback ? 1 : 0);
  if (places.size() > most) places.resize(most);
  if (has_loopback) {
    TOWPATH_TRY(const auto loopback, resolve({.host = "127.0.0.1", .port = 0}));
    places.push_back(loopback.front());
  }
  return places;
}

/// So that a connection whose other end is gone without a word is not kept for ever.
void keep_alive(int fd) {
  const int yes = 1;
  const int idle_s = 60;
  (void)::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
}

Endpoint with_port(Endpoint endpoint, std::uint16_t port) {
  // Both kinds of address have the port at the same place.
  reinterpret_cast<sockaddr_in*>(&endpoint.storage)->sin_port = htons(port);
  return endpoint;
}

std::uint16_t port_of(const Listener& listener) {
  return std::get<TcpAddress>(listener.address()).port;
}

Result<Listener> listen_anywhere() {
  auto both = Listener::listen(TcpAddress{.host = "::", .port = 0});
  return both.ok() ? std::move(both) : Listener::listen(TcpAddress{.host = "0.0.0.0", .port = 0});
}

// ---- Opening and closing

Status TcpWorker::open(const TcpOptions& options) {
  TcpPlace place{.instance = sys::random_u64()};
  std::array<std::uint64_t, TcpPlace::kSecretBytes / sizeof(std::uint64_t)> random{};
  sys::random_u64s(random);
  place.secret = as_text(std::as_bytes(std::span(random)));
  TOWPATH_TRY(secret_, Token::make(place.secret));
  instance_ = place.instance;
  TOWPATH_TRY(place.endpoints, open_ports(options.devices));
  address_ = encode(place);
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  loop_.emplace(std::move(poller));
  for (Port& port : ports_) {
    TOWPATH_TRY(port.tag, loop_->add(port.listener.fd(), *this));
  }
  return {};
}

Result<std::vector<Endpoint>> TcpWorker::open_ports(const std::vector<std::string>& devices) {
  TOWPATH_TRY(std::vector<Endpoint> places, places_of(devices));
  if (devices.empty()) {
    TOWPATH_TRY(Listener all, listen_anywhere());
    for (Endpoint& place : places) place = with_port(place, port_of(all));
    ports_.push_back({.listener = std::move(all)});
    return places;
  }
  for (Endpoint& place : places) {
    TOWPATH_TRY(Listener one, Listener::listen(to_address(place)));
    place = with_port(place, port_of(one));
    ports_.push_back({.listener = std::move(one)});
  }
  return places;
}

TcpWorker::~TcpWorker() {
  for (const auto& [tag, incoming] : incoming_) loop_->remove(incoming->fd(), tag);
}

Result<std::unique_ptr<MessageEndpoint>> TcpWorker::connect(ConstByteSpan address, void* owner) {
  TOWPATH_TRY(TcpPlace place, decode_tcp_place(address));
  auto endpoint = std::make_unique<TcpEndpoint>(*loop_, buffers_, listener_, owner);
  TOWPATH_TRY(endpoint->dial(std::move(place)));
  return endpoint;
}

// ---- The loop

bool TcpWorker::progress() {
  const bool some = loop_->turn();
  if (!some) open_again();
  return some;
}

void TcpWorker::on_event(const run::PollEvent& event) {
  const auto port = std::ranges::find(ports_, event.tag, &Port::tag);
  if (port != ports_.end()) return accept(*port);
  const auto found = incoming_.find(event.tag);
  if (found == incoming_.end()) return;
  if (const Status taken = found->second->take(); !taken.ok()) end(event.tag, taken);
}

void TcpWorker::end(std::uint64_t tag, const Status& why) {
  const auto found = incoming_.find(tag);
  const std::unique_ptr<TcpIncoming> ended = std::move(found->second);
  incoming_.erase(found);
  loop_->remove(ended->fd(), tag);
  if (ended->is_known()) listener_.on_ended(ended->id(), why);
}

// ---- Those who come

void TcpWorker::accept(Port& port) {
  for (std::size_t i = 0; i < kAcceptedPerTurn; ++i) {
    auto socket = port.listener.accept();
    // No descriptor is free: the port would be told again and again.
    if (!socket.ok()) return loop_->remove(port.listener.fd(), std::exchange(port.tag, 0));
    if (!*socket) return;
    if (make_room()) let_in(*std::move(socket));
  }
}

void TcpWorker::open_again() {
  for (Port& port : ports_) {
    if (port.tag != 0) continue;
    if (auto tag = loop_->add(port.listener.fd(), *this); tag.ok()) port.tag = *tag;
  }
}

/// Among those that have not said who they are, and may never.
bool TcpWorker::make_room() {
  const auto is_stranger = [](const auto& entry) { return !entry.second->is_known(); };
  if (std::ranges::count_if(incoming_, is_stranger) >= std::ptrdiff_t{kMostStrangers})
    end(std::ranges::find_if(incoming_, is_stranger)->first, Status());
  return incoming_.size() < kMostIncoming;
}

void TcpWorker::let_in(sys::Fd socket) {
  const int fd = socket.get();
  keep_alive(fd);
  auto tag = loop_->add(fd, *this);
  if (!tag.ok()) return;
  auto incoming = std::make_unique<TcpIncoming>(sys::make_socket_stream(std::move(socket)), *tag,
                                                *secret_, limits_, listener_);
  const Status greeted = incoming->greet(instance_);
  incoming_.emplace(*tag, std::move(incoming));
  if (!greeted.ok()) end(*tag, greeted);
}

}  // namespace

Result<std::unique_ptr<MessageWorker>> open_tcp_worker(const TcpOptions& options,
                                                       MessageListener& listener) {
  auto worker = std::make_unique<TcpWorker>(options, listener);
  TOWPATH_TRY(worker->open(options));
  return worker;
}

Finding probe_tcp() {
  Finding finding{.question = "Can agents reach other machines over TCP?",
                  .signal = "addresses of network interfaces that are up",
                  .source = "getifaddrs()"};
  const auto own = own_endpoints();
  finding.verdict = Verdict::yes;
  if (own.ok() && !own->empty()) {
    for (const Endpoint& endpoint : *own)
      finding.reason += cat(finding.reason.empty() ? "" : ", ", to_address(endpoint).host);
    return finding;
  }
  finding.reason = own.ok() ? "no interface but the loopback has one: processes of this host only"
                            : std::string(own.status().message());
  finding.remedy = "give an interface an address (`ip address`)";
  return finding;
}

}  // namespace towpath::net
