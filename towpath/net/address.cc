#include <charconv>
#include <optional>

#include <towpath/core/format.h>
#include <towpath/net/address.h>

namespace towpath::net {

namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kTcp = "tcp://";
constexpr std::size_t kMaxHost = 255;  // RFC 1035

Status not_an_address(std::string_view text, std::string_view why) {
  return error(Code::invalid_argument, cat("'", printable(text), "' is no address: ", why),
               "write unix:/path, unix:@name, tcp://host:port or tcp://[::1]:port");
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || failed != std::errc() || end != text.data() + text.size()) return {};
  return port;
}

bool is_host(std::string_view text) {
  return !text.empty() && text.size() <= kMaxHost &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
             ".-_:%") == std::string_view::npos;
}

Result<Address> parse_local(std::string_view text) {
  const std::string_view name = text.substr(kUnix.size());
  const bool abstract = name.starts_with('@');
  if (name.size() <= (abstract ? 1U : 0U)) return not_an_address(text, "it has no name");
  return Address(sys::LocalAddress{std::string(name.substr(abstract ? 1 : 0)), abstract});
}

}  // namespace

std::string to_string(const Address& address) {
  if (const auto* local = std::get_if<sys::LocalAddress>(&address))
    return cat(kUnix, local->abstract ? "@" : "", printable(local->name, 107));
  const auto& tcp = std::get<TcpAddress>(address);
  const bool is_six = tcp.host.find(':') != std::string::npos;
  return cat(kTcp, is_six ? "[" : "", printable(tcp.host, kMaxHost), is_six ? "]:" : ":", tcp.port);
}

Result<Address> parse_address(std::string_view text) {
  if (text.starts_with(kUnix)) return parse_local(text);
  std::string_view rest = text;
  if (rest.starts_with(kTcp)) rest.remove_prefix(kTcp.size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return not_an_address(text, "it has no port");
  const auto port = parse_port(rest.substr(colon + 1));
  if (!port) return not_an_address(text, "its port is no number from 0 to 65535");
  std::string_view host = rest.substr(0, colon);
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (has_brackets) host = host.substr(1, host.size() - 2);
  if (!is_host(host)) return not_an_address(text, "its host is none");
  if (has_brackets != (host.find(':') != std::string_view::npos))
    return not_an_address(text, "an IPv6 host stands in brackets, and no other");
  return Address(TcpAddress{std::string(host), *port});
}

}  // namespace towpath::net
