#include <charconv>

#include <towpath/backends/messages/carrier.h>
#include <towpath/backends/messages/frames.h>
#include <towpath/core/format.h>
#include <towpath/core/words.h>
#include <towpath/net/tcp/tcp_worker.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/fd.h>

namespace towpath::backends::messages {

using namespace backend;

namespace {

/// "eth0,eth1"
std::vector<std::string> devices_of(const Params& params) {
  std::vector<std::string> devices;
  const auto found = params.find("devices");
  std::string_view rest = found == params.end() ? std::string_view() : found->second;
  for (std::string_view one; !(one = next_word(rest, ", ")).empty();) devices.emplace_back(one);
  return devices;
}

constexpr std::string_view kTls = "tls";
constexpr std::string_view kAuthenticated = "authenticated";

std::string_view security_of(const Params& params) {
  const auto found = params.find("security");
  return found == params.end() ? kAuthenticated : std::string_view(found->second);
}

/// Of TLS, by the words that a rendezvous has for them.
net::TlsCertificates certificates_of(const Params& params) {
  const auto file = [&](const char* name) {
    const auto found = params.find(name);
    return found == params.end() ? std::string() : found->second;
  };
  return {.certificate_file = file("cert"), .key_file = file("key"), .authority_file = file("ca")};
}

/// More sockets than this to one peer have nothing to gain.
constexpr unsigned kMostRails = 8;

Result<unsigned> rails_of(const Params& params) {
  const auto found = params.find("rails");
  if (found == params.end() || found->second.empty()) return 1U;
  unsigned rails = 0;
  const std::string& text = found->second;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), rails);
  if (failure == std::errc() && end == text.data() + text.size() && rails > 0 &&
      rails <= kMostRails)
    return rails;
  return error(Code::invalid_argument, cat("tcp: rails=", printable(text)),
               cat("use a number from 1 to ", kMostRails));
}

Result<bool> asks_for_kernel_tls(const Params& params) {
  const auto found = params.find("ktls");
  if (found == params.end() || found->second == "off") return false;
  if (found->second == "on") return true;
  return error(Code::invalid_argument, cat("tcp: ktls=", printable(found->second)),
               "use on (the kernel encrypts) or off (OpenSSL does)");
}

Status adapt(Carrier& tcp, const Params& params) {
  TOWPATH_TRY(tcp.rails, rails_of(params));
  tcp.most_accepted = sys::share_of_descriptors(2, tcp.most_accepted);
  const std::string_view security = security_of(params);
  const bool has_certificates = !certificates_of(params).empty();
  TOWPATH_TRY(const bool by_kernel, asks_for_kernel_tls(params));
  if (by_kernel && security != kTls)
    return error(Code::invalid_argument, "tcp: ktls=on without security=tls",
                 "add it: the kernel makes the records of TLS");
  if (security == kAuthenticated && has_certificates)
    return error(Code::invalid_argument, "tcp: cert, key and ca without security=tls",
                 "add it: certificates are of TLS");
  if (security == kAuthenticated) return {};
  if (security != kTls)
    return error(Code::invalid_argument, cat("tcp: security=", printable(security)),
                 "use tls (all bytes are encrypted) or authenticated (both sides are proven, heads "
                 "are sealed)");
  tcp.path = cat("messages over TCP in TLS 1.3", by_kernel ? " of the kernel" : "",
                 has_certificates ? ", by certificates" : "");
  return {};
}

}  // namespace

Carrier tcp_carrier() {
  Carrier tcp;
  tcp.name = "tcp";
  tcp.summary = "agents of other processes and machines, over TCP";
  tcp.path = "messages over TCP";
  tcp.has_connections = true;
  tcp.cost = {.latency = std::chrono::microseconds(20),
              .per_segment = Duration(30),
              .bytes_per_second = 4e9};
  tcp.params = {{.name = "devices",
                 .default_value = "",
                 .meaning = "network interfaces by which others may come: eth0,eth1; empty: all"},
                {.name = "security",
                 .default_value = std::string(kAuthenticated),
                 .meaning = "tls: all bytes are encrypted; authenticated: both sides are proven, "
                            "heads are sealed, payload is not"},
                {.name = "cert",
                 .default_value = "",
                 .meaning = "a file in PEM: with tls, the certificate of this side, which names "
                            "its addresses; both sides have one, or none"},
                {.name = "key", .default_value = "", .meaning = "a file in PEM: that one's key"},
                {.name = "ca",
                 .default_value = "",
                 .meaning = "a file in PEM: the authority that both sides trust"},
                {.name = "ktls",
                 .default_value = "off",
                 .meaning = "on: with tls, the kernel encrypts and decrypts (kTLS, Linux 6.14 and "
                            "newer); refused where it cannot"},
                {.name = "rails",
                 .default_value = "1",
                 .meaning = "connections to a peer, at most 8, over paths of their own first: "
                            "slices go by how fast each is, and what one loses another does "
                            "again"}};
  tcp.adapt = adapt;
  // The backend may outlive the clock that it was given, and the worker's is the kernel's anyway.
  tcp.make_worker = [](const BackendContext& context, net::MessageListener& listener) {
    return net::open_tcp_worker({.devices = devices_of(context.params),
                                 .head_bytes = kMaxHeadBytes,
                                 .body_bytes = kMaxBodyBytes,
                                 .tls = security_of(context.params) == kTls,
                                 .certificates = certificates_of(context.params),
                                 .kernel_tls = asks_for_kernel_tls(context.params).value()},
                                listener, sys::system_clock());
  };
  tcp.probe = net::probe_tcp;
  return tcp;
}

}  // namespace towpath::backends::messages
