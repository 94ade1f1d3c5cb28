#include <towpath/backends/object/object_name.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr std::size_t kMaxKeyBytes = 1024;  // of S3 ("Creating object key names")
constexpr std::size_t kMinBucketBytes = 3;
constexpr std::size_t kMaxBucketBytes = 63;

}  // namespace

Result<ObjectName> ObjectName::of(const RegionDescriptor& region,
                                  const std::string& default_bucket) {
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
  if (name.bucket.size() < kMinBucketBytes || name.bucket.size() > kMaxBucketBytes ||
      name.bucket.find_first_of("/\\ \t\r\n") != std::string::npos)
    return error(Code::invalid_argument, cat("'", printable(name.bucket), "' is no bucket"),
                 "buckets have 3 to 63 letters, digits, dots and hyphens");
  if (name.key.empty() || name.key.size() > kMaxKeyBytes)
    return error(Code::invalid_argument,
                 cat("a key of ", name.key.size(), " bytes in bucket '", name.bucket, "'"),
                 cat("keys have 1 to ", kMaxKeyBytes, " bytes"));
  return name;
}

std::string to_string(const ObjectName& name) {
  return cat(kScheme, printable(name.bucket), "/", printable(name.key, 200));
}

}  // namespace towpath::backends::object
