#include <algorithm>
#include <optional>
#include <utility>

#include <netinet/in.h>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/net/keys.h>
#include <towpath/net/listener.h>
#include <towpath/net/tcp/tcp_address.h>
#include <towpath/net/tcp/tcp_endpoint.h>
#include <towpath/net/tcp/tcp_loop.h>
#include <towpath/net/tcp/tcp_newcomers.h>
#include <towpath/net/tcp/tcp_worker.h>
#include <towpath/net/tls/tls_context.h>

namespace towpath::net {
namespace {

constexpr std::size_t kAcceptedPerTurn = 64;
/// While no descriptor is free.
constexpr Duration kClosedFor = std::chrono::milliseconds(100);

TlsKey make_tls_key() {
  TlsKey key;
  fill_random(key);
  return key;
}

/// Null: no TLS is spoken.
std::shared_ptr<const TlsContext> tls_of(const std::optional<TlsKey>& key, TlsRecords records) {
  if (!key) return nullptr;
  auto token = Token::make(as_text(*key));
  TOWPATH_CHECK(token.ok(), "32 bytes are a token");
  return TlsContext::from_token(*token, records);
}

/// What a port of ours speaks: TLS by certificates, by a key of its own, or none.
struct OwnTls {
  std::shared_ptr<const TlsContext> certificates;
  std::optional<TlsKey> key;
  TlsRecords records = TlsRecords::by_library;

  static Result<OwnTls> make(const TcpOptions& options) {
    OwnTls tls;
    if (options.kernel_tls) {
      TOWPATH_TRY(can_kernel_do_tls());
      tls.records = TlsRecords::by_kernel;
    }
    if (options.tls && !options.certificates.empty()) {
      TOWPATH_TRY(tls.certificates,
                  TlsContext::from_certificates(options.certificates, tls.records));
    } else if (options.tls) {
      tls.key = make_tls_key();
    }
    return tls;
  }
  std::shared_ptr<const TlsContext> of_port() const {
    return certificates ? certificates : tls_of(key, records);
  }
  /// By which a port of others is dialled; null: none. Errors: unsupported (it speaks less than
  /// this side asks for, or asks for a certificate that is not there).
  Result<std::shared_ptr<const TlsContext>> towards(const TcpPlace& place) const;
};

Result<std::shared_ptr<const TlsContext>> OwnTls::towards(const TcpPlace& place) const {
  if (certificates && place.wants_certificate) return certificates;
  if (certificates || place.wants_certificate)
    return error(Code::unsupported,
                 certificates ? "the peer's port shows no certificate, and this side asks for one"
                              : "the peer's port asks for a certificate, and this side has none",
                 "give both sides security=tls with cert, key and ca");
  if (key && !place.tls_key)
    return error(Code::unsupported, "the peer's port speaks no TLS, and this side asks for it",
                 "give both sides security=tls");
  return tls_of(place.tls_key, records);
}

class TcpWorker final : public MessageWorker, private TcpSocketOwner, private TcpSleeper {
 public:
  TcpWorker(const TcpOptions& options, OwnTls tls, MessageListener& listener, TcpLoop loop)
      : loop_(std::move(loop)),
        buffers_(options.head_bytes + options.body_bytes),
        context_{.loop = loop_,
                 .buffers = buffers_,
                 .listener = listener,
                 .limits = {options.head_bytes, options.body_bytes},
                 .first_bytes = options.first_bytes},
        tls_(std::move(tls)),
        newcomers_(loop_, listener, {.first_bytes = options.first_bytes, .tls = tls_.of_port()}) {}

  Status open(const TcpOptions& options);
  ConstByteSpan address() const noexcept override { return address_; }
  MessageBuffers& buffers() noexcept override { return buffers_; }
  Result<std::unique_ptr<MessageEndpoint>> connect(ConstByteSpan address,
                                                   std::unique_ptr<MessageBuffer> first,
                                                   void* owner) override;
  Result<std::vector<MessagePath>> paths(ConstByteSpan address) const override;
  Result<std::unique_ptr<MessageEndpoint>> answer(std::uint64_t from, void* owner) override;
  bool progress() override;
  std::uint64_t work() const noexcept override { return loop_.work(); }
  /// What else is not dealt with is reported again.
  bool arm() override { return !loop_.has_rests(); }
  int fd() const noexcept override { return loop_.fd(); }

 private:
  void on_event(const run::PollEvent& event) override;
  /// Where others come in: one for all addresses, or one for each that was chosen.
  struct Port {
    Listener listener;
    std::uint64_t tag = 0;  ///< 0: nobody is let in for now
  };
  Result<std::vector<Endpoint>> open_ports(const std::vector<std::string>& devices);
  Result<std::vector<Endpoint>> reachable(const TcpPlace& place) const;
  void close_for_now(Port& port, const Status& why);
  void on_wake(Instant now) override;

  TcpLoop loop_;
  MessageBuffers buffers_;
  const TcpContext context_;
  std::optional<HostMark> host_;
  const OwnTls tls_;
  Bytes address_;
  std::vector<Port> ports_;
  TcpNewcomers newcomers_;
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
  // Last, since it leads to us only on this host; on others it is not tried.
  const bool has_loopback = devices.empty() || std::ranges::count(devices, "lo") > 0;
  const std::size_t most = TcpPlace::kMostEndpoints - (has_loopback ? 1 : 0);
  if (places.size() > most) places.resize(most);
  if (has_loopback) {
    TOWPATH_TRY(const auto loopback, resolve({.host = "127.0.0.1", .port = 0}));
    places.push_back(loopback.front());
  }
  return places;
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
  if (auto mark = host_mark(); mark.ok()) host_ = *mark;
  TcpPlace place{.host = host_,
                 .endpoints = {},
                 .tls_key = tls_.key,
                 .wants_certificate = tls_.certificates != nullptr};
  TOWPATH_TRY(place.endpoints, open_ports(options.devices));
  address_ = encode(place);
  for (Port& port : ports_) {
    TOWPATH_TRY(port.tag, loop_.add(port.listener.fd(), *this));
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

Result<std::vector<Endpoint>> TcpWorker::reachable(const TcpPlace& place) const {
  if (host_ && place.host == host_) return place.endpoints;
  TOWPATH_TRY(const std::vector<Endpoint> own, own_endpoints());
  return reachable_from(place, host_, own);
}

Result<std::unique_ptr<MessageEndpoint>> TcpWorker::connect(ConstByteSpan address,
                                                            std::unique_ptr<MessageBuffer> first,
                                                            void* owner) {
  const ConstByteSpan said = first->with_prefix();
  Bytes bytes(said.begin(), said.end());
  buffers_.give_back(std::move(first));
  TOWPATH_TRY(const TcpPlace place, decode_tcp_place(address));
  TOWPATH_TRY(auto tls, tls_.towards(place));
  TOWPATH_TRY(const std::vector<Endpoint> endpoints, reachable(place));
  auto endpoint = std::make_unique<TcpEndpoint>(context_, owner);
  TOWPATH_TRY(endpoint->dial(endpoints, std::move(bytes), std::move(tls)));
  return endpoint;
}

// An interface of ours that none before leads from comes first.
Result<std::vector<MessagePath>> TcpWorker::paths(ConstByteSpan address) const {
  TOWPATH_TRY(TcpPlace place, decode_tcp_place(address));
  TOWPATH_TRY(const std::vector<Endpoint> endpoints, reachable(place));
  std::vector<MessagePath> first, others;
  std::vector<std::string> sources;
  for (const Endpoint& endpoint : endpoints) {
    const auto source = source_towards(endpoint);
    if (!source.ok()) continue;
    const std::string from = to_address(*source).host;
    const bool is_new = std::ranges::count(sources, from) == 0;
    if (is_new) sources.push_back(from);
    place.endpoints = {endpoint};
    (is_new ? first : others)
        .push_back({.address = encode(place), .name = to_string(to_address(endpoint))});
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

Result<std::unique_ptr<MessageEndpoint>> TcpWorker::answer(std::uint64_t from, void* owner) {
  auto stream = newcomers_.take(from);
  if (!stream) return error(Code::not_found, cat("no message comes from connection ", from));
  auto endpoint = std::make_unique<TcpEndpoint>(context_, owner);
  TOWPATH_TRY(endpoint->accept(std::move(stream), from));
  return endpoint;
}

// ---- The loop

bool TcpWorker::progress() { return loop_.turn(); }

void TcpWorker::on_event(const run::PollEvent& event) {
  Port& port = *std::ranges::find(ports_, event.tag, &Port::tag);
  for (std::size_t i = 0; i < kAcceptedPerTurn; ++i) {
    auto socket = port.listener.accept();
    if (!socket.ok()) return close_for_now(port, socket.status());
    if (!*socket) return;
    newcomers_.let_in(*std::move(socket));
  }
}

// No descriptor is free, and a port that is watched would be reported again and again.
void TcpWorker::close_for_now(Port& port, const Status& why) {
  loop_.wake(*this, loop_.now() + kClosedFor);  // first: it may throw
  loop_.remove(port.listener.fd(), std::exchange(port.tag, 0));
  context_.listener.on_refused(to_string(port.listener.address()), why);
}

void TcpWorker::on_wake(Instant now) {
  for (Port& port : ports_) {
    if (port.tag != 0) continue;
    if (auto tag = loop_.add(port.listener.fd(), *this); tag.ok())
      port.tag = *tag;
    else
      loop_.wake(*this, now + kClosedFor);
  }
}

}  // namespace

Result<std::unique_ptr<MessageWorker>> open_tcp_worker(const TcpOptions& options,
                                                       MessageListener& listener,
                                                       const Clock& clock) {
  TOWPATH_TRY(OwnTls tls, OwnTls::make(options));
  TOWPATH_TRY(TcpLoop loop, TcpLoop::open(clock));
  auto worker = std::make_unique<TcpWorker>(options, std::move(tls), listener, std::move(loop));
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
  finding.hint = "give an interface an address (`ip address`)";
  return finding;
}

}  // namespace towpath::net
