// StoreAddress: where a store is, and where in it an object is: path style or virtual-host style.
//
//   path style     https://HOST[:PORT][/BASE]/BUCKET/KEY     any store
//   virtual host   https://BUCKET.HOST[:PORT][/BASE]/KEY     where names of buckets are in DNS
//
// Thread: immutable.
#pragma once

#include <string>

#include <towpath/backends/object/object_name.h>
#include <towpath/core/result.h>

namespace towpath::backends::object {

/// Where a request goes.
struct Target {
  std::string host;  ///< as in the header Host: with the port unless it is the scheme's own
  std::string path;  ///< encoded, with the "/" in front
};

struct StoreAddress {
  std::string scheme = "https";
  std::string host;  ///< with the port, unless it is the scheme's own
  std::string base;  ///< a path in front of everything: "" or "/s3"
  Style style = Style::path;

  /// From "https://host:port/base", or "host:port" and `scheme`. Errors: invalid_argument.
  static Result<StoreAddress> parse(const std::string& url, const std::string& scheme);
  /// Amazon's own in a region.
  static StoreAddress of_amazon(const std::string& region);

  /// An empty key: the bucket itself.
  Target target(const ObjectName& name) const;
  std::string to_string() const { return scheme + "://" + host + base; }
};

}  // namespace towpath::backends::object
