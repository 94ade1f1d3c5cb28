// ObjectName: which object of a store: its bucket and its key.
//
// In a region's key it stands as NIXL's users write it, a key in the backend's own bucket, or as a
// URL with a bucket of its own:
//
//   "kv/layer-0"                the backend's bucket
//   "s3://cold/kv/layer-0"      bucket "cold"
//   ""                          the device id in decimal, in the backend's bucket
//
// Thread: immutable.
#pragma once

#include <compare>
#include <string>

#include <towpath/core/descriptor.h>
#include <towpath/core/result.h>

namespace towpath::backends::object {

/// Where a request names the bucket: see StoreAddress.
enum class Style { path, virtual_host };

struct ObjectName {
  std::string bucket;
  std::string key;

  friend auto operator<=>(const ObjectName&, const ObjectName&) = default;

  /// What `region` names. Errors: invalid_argument (no bucket anywhere, no key, too long), and
  /// those of check_bucket().
  static Result<ObjectName> of(const RegionDescriptor& region, const std::string& default_bucket,
                               Style style = Style::path);
};

/// Errors: invalid_argument (no name that buckets have). Nothing in such a name ends its part of a
/// URL.
Status check_bucket(const std::string& bucket, Style style);

/// "s3://cold/kv/layer-0", safe to print.
std::string to_string(const ObjectName& name);

}  // namespace towpath::backends::object
