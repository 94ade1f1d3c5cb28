#include <algorithm>
#include <array>
#include <utility>

#include <arpa/inet.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/text.h>
#include <towpath/net/address.h>
#include <towpath/net/keys.h>
#include <towpath/standard/metadata_security.h>
#include <towpath/sys/private_file.h>
#include <towpath/sys/text_file.h>

namespace towpath::standard {

namespace {

using Context = std::shared_ptr<const net::TlsContext>;

bool is_own_directory(const std::string& path) {
  struct stat about {};
  return !path.empty() && ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) &&
         about.st_uid == ::geteuid();
}

Result<net::Token> find_shared_token(const std::string& path) {
  std::array<std::byte, 32> random;
  net::fill_random(random);
  TOWPATH_TRY(const std::string text,
              sys::find_or_make_private_file(path, net::to_hex(random) + "\n"));
  auto token = net::Token::from_text(sys::trimmed(text));
  if (token.ok()) return token;
  return error(Code::corrupt, cat(printable(path, 256), " holds no token"), "remove the file")
      .because(token.status());
}

// By what is written, without asking for names.
bool is_of_this_host(std::string_view endpoint) {
  constexpr std::string_view kScheme = "http://";
  if (endpoint.starts_with(kScheme)) endpoint.remove_prefix(kScheme.size());
  const auto address = net::parse_address(cat("tcp://", endpoint.substr(0, endpoint.find('/'))));
  const auto* tcp = address.ok() ? std::get_if<net::TcpAddress>(&*address) : nullptr;
  if (tcp == nullptr) return false;
  in_addr four{};
  return tcp->host == "localhost" || tcp->host == "::1" ||
         (tcp->host.starts_with("127.") && ::inet_pton(AF_INET, tcp->host.c_str(), &four) == 1);
}

Result<Context> make_context(const MetadataSecurity& security) {
  if (security.token && !security.certificates.empty())
    return error(Code::invalid_argument, "both a token and certificates are given for metadata",
                 "give one of them, and the same to all agents");
  if (!security.certificates.empty())
    return net::TlsContext::from_certificates(security.certificates);
  if (security.token) return net::TlsContext::from_token(*security.token);
  TOWPATH_TRY(const net::Token token, find_shared_token(security.shared_token_file.empty()
                                                            ? shared_token_file(read_environment())
                                                            : security.shared_token_file));
  return net::TlsContext::from_token(token);
}

}  // namespace

net::TlsProvider tls_provider(MetadataSecurity security) {
  return [security = std::move(security), made = Context()]() mutable -> Result<Context> {
    if (!made) {
      TOWPATH_TRY(made, make_context(security));
    }
    return made;
  };
}

Result<net::Token> read_token(const std::string& path) {
  TOWPATH_TRY(const std::string text, sys::read_text_file(path));
  auto token = net::Token::from_text(sys::trimmed(text));
  if (token.ok()) return token;
  return error(token.code(), cat("the token file ", printable(path, 256), " is of no use"),
               "write one with `openssl rand -hex 32`")
      .because(token.status());
}

Result<std::optional<net::Token>> etcd_token(const std::optional<std::string>& token_file,
                                             std::span<const std::string> endpoints,
                                             const std::string& shared_token_file) {
  std::optional<net::Token> token;
  if (token_file) {
    TOWPATH_TRY(token, read_token(*token_file));
    return token;
  }
  const auto is_plain = [](const std::string& each) { return !each.starts_with("https://"); };
  const auto away = std::ranges::find_if(
      endpoints, [&](const std::string& each) { return is_plain(each) && !is_of_this_host(each); });
  if (away == endpoints.end()) {
    if (std::ranges::any_of(endpoints, is_plain)) {
      TOWPATH_TRY(token, find_shared_token(shared_token_file));
    }
    return token;
  }
  return error(
      Code::denied,
      cat("the etcd at ", printable(*away, 200),
          " would have our metadata in plain text, and who reads them reaches our memory"),
      "give all agents the same token file (TOWPATH_TOKEN_FILE, ?token-file=), which encrypts "
      "them, or use https:// (etcds://)");
}

std::string shared_token_file(const Environment& environment) {
  const auto named = environment.find("XDG_RUNTIME_DIR");
  for (const std::string& parent :
       {named == environment.end() ? std::string() : named->second, cat("/run/user/", ::geteuid())})
    if (is_own_directory(parent)) return cat(parent, "/towpath/token");
  return cat("/tmp/towpath-", ::geteuid(), "/token");
}

}  // namespace towpath::standard
