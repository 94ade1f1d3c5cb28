#include <algorithm>

#include <towpath/backends/object/object_name.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr std::size_t kMaxKeyBytes = 1024;  // of S3 ("Creating object key names")
constexpr std::size_t kMinBucketBytes = 3;
constexpr std::size_t kMaxBucketBytes = 63;

}  // namespace

Result<ObjectName> ObjectName::of(const RegionDescriptor& region, const std::string& default_bucket,
                                  Style style) {
  ObjectName name{default_bucket, region.key.empty() ? cat(region.device_id) : region.key};
  if (name.key.starts_with(kScheme)) {
    const std::string rest = name.key.substr(kScheme.size());
    const auto slash = rest.find('/');
    name.bucket = rest.substr(0, slash);
    name.key = slash == std::string::npos ? std::string() : rest.substr(slash + 1);
  }
  if (name.bucket.empty())
    return error(
        Code::invalid_argument, cat(towpath::to_string(region), " names no bucket"),
        "give the backend a bucket (parameter bucket, or AWS_DEFAULT_BUCKET), or write the "
        "key as s3://BUCKET/KEY");
  TOWPATH_TRY(check_bucket(name.bucket, style));
  if (name.key.empty() || name.key.size() > kMaxKeyBytes)
    return error(Code::invalid_argument,
                 cat("a key of ", name.key.size(), " bytes in bucket '", name.bucket, "'"),
                 cat("keys have 1 to ", kMaxKeyBytes, " bytes"));
  return name;
}

Status check_bucket(const std::string& bucket, Style style) {
  const auto fits = [style](char letter) {
    if ((letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9')) return true;
    if (letter == '.' || letter == '-') return true;
    // Old buckets have these, and those of stores other than Amazon's; a host's name does not.
    return style == Style::path && ((letter >= 'A' && letter <= 'Z') || letter == '_');
  };
  if (bucket.size() >= kMinBucketBytes && bucket.size() <= kMaxBucketBytes &&
      std::ranges::all_of(bucket, fits))
    return {};
  return error(Code::invalid_argument, cat("'", printable(bucket), "' is no bucket"),
               style == Style::path
                   ? "buckets have 3 to 63 letters, digits, dots, hyphens and underscores"
                   : "in a host's name (use_virtual_addressing) buckets have 3 to 63 lower-case "
                     "letters, digits, dots and hyphens");
}

std::string to_string(const ObjectName& name) {
  return cat(kScheme, printable(name.bucket), "/", printable(name.key, 200));
}

}  // namespace towpath::backends::object
