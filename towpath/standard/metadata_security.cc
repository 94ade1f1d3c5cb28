#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/net/address.h>
#include <towpath/standard/metadata_security.h>

namespace towpath::standard {

namespace {

using Context = std::shared_ptr<const net::TlsContext>;

bool is_endpoint_of_this_host(std::string_view endpoint) {
  constexpr std::string_view kScheme = "http://";
  if (endpoint.starts_with(kScheme)) endpoint.remove_prefix(kScheme.size());
  const auto address = net::parse_address(cat("tcp://", endpoint.substr(0, endpoint.find('/'))));
  return address.ok() && is_of_this_host(*address);
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

Result<std::optional<net::Token>> etcd_token(const std::optional<std::string>& token_file,
                                             std::span<const std::string> endpoints,
                                             const std::string& shared_token_file) {
  std::optional<net::Token> token;
  if (token_file) {
    TOWPATH_TRY(token, read_token(*token_file));
    return token;
  }
  const auto is_plain = [](const std::string& each) { return !each.starts_with("https://"); };
  const auto away = std::ranges::find_if(endpoints, [&](const std::string& each) {
    return is_plain(each) && !is_endpoint_of_this_host(each);
  });
  if (away == endpoints.end()) {
    if (std::ranges::any_of(endpoints, is_plain)) {
      TOWPATH_TRY(token, find_shared_token(shared_token_file));
    }
    return token;
  }
  return error(
      Code::denied,
      cat("the etcd at ", printable(*away, 200),
          " would have our metadata in plain text, and a reader reaches our memory"),
      "give all agents the same token file (TOWPATH_TOKEN_FILE, ?token-file=), which encrypts "
      "them, or use https:// (etcds://)");
}

}  // namespace towpath::standard
