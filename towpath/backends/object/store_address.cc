#include <string_view>

#include <towpath/backends/object/signature.h>
#include <towpath/backends/object/store_address.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {

Result<StoreAddress> StoreAddress::parse(const std::string& url, const std::string& scheme) {
  constexpr std::string_view kMark = "://";
  StoreAddress address{.scheme = scheme};
  std::string rest = url;
  if (const auto mark = url.find(kMark); mark != std::string::npos) {
    address.scheme = url.substr(0, mark);
    rest = url.substr(mark + kMark.size());
  }
  const auto slash = rest.find('/');
  address.host = rest.substr(0, slash);
  if (slash != std::string::npos) address.base = rest.substr(slash);
  while (address.base.ends_with('/')) address.base.pop_back();
  const bool known = address.scheme == "http" || address.scheme == "https";
  if (!known || address.host.empty() || address.host.starts_with(':') ||
      address.host.find_first_of("@ \t\r\n?#") != std::string::npos ||
      address.base.find_first_of(" \t\r\n?#") != std::string::npos)
    return error(
        Code::invalid_argument, cat("'", printable(url, 200), "' is no store's address"),
        "write http://host:port or https://host:port, with keys as parameters of their own");
  // As libcurl and the store write it: what is signed must be what is sent.
  const std::string_view own = address.scheme == "http" ? ":80" : ":443";
  if (address.host.ends_with(own)) address.host.resize(address.host.size() - own.size());
  return address;
}

StoreAddress StoreAddress::of_amazon(const std::string& region) {
  // China's regions are a part of Amazon's with names of its own.
  return {.scheme = "https",
          .host = cat("s3.", region, ".amazonaws.com", region.starts_with("cn-") ? ".cn" : "")};
}

Target StoreAddress::target(const ObjectName& name) const {
  const std::string key = encode_uri(name.key, Slashes::kept);
  if (style == Style::virtual_host) return {cat(name.bucket, ".", host), cat(base, "/", key)};
  const std::string bucket = cat(base, "/", encode_uri(name.bucket, Slashes::encoded));
  return {host, name.key.empty() ? bucket : cat(bucket, "/", key)};
}

}  // namespace towpath::backends::object
