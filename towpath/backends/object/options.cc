#include <algorithm>
#include <array>

#include <towpath/backends/object/options.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {
namespace {

constexpr std::array<std::string_view, 3> kCredentialNames = {"access_key", "secret_key",
                                                              "session_token"};

struct Bounds {
  std::uint64_t low;
  std::uint64_t high;
};

/// Reads one parameter after the other, and keeps the first thing that is wrong.
class ParamReader {
 public:
  explicit ParamReader(const backend::Params& params) : params_(params) {}

  const std::string* find(const std::string& name) const {
    const auto found = params_.find(name);
    return found == params_.end() || found->second.empty() ? nullptr : &found->second;
  }
  /// Text that goes into headers: no control characters.
  void text(const std::string& name, std::string& into) {
    const std::string* value = find(name);
    if (value == nullptr) return;
    const bool clean = std::ranges::none_of(
        *value, [](char letter) { return static_cast<unsigned char>(letter) < ' '; });
    if (!clean) return refuse(name, "has control characters", "copy it again, in one line");
    into = *value;
  }
  void secret(const std::string& name, Secret& into) {
    std::string value;
    text(name, value);
    if (!value.empty()) into = Secret(std::move(value));
  }
  void number(const std::string& name, Bounds bounds, std::uint64_t& into) {
    const std::string* value = find(name);
    if (value == nullptr) return;
    const auto number = parse_bytes(*value);
    if (!number.ok() || *number < bounds.low || *number > bounds.high)
      return refuse(name, cat("is '", printable(*value), "'"),
                    cat("use ", bounds.low, " to ", bounds.high));
    into = *number;
  }
  void number(const std::string& name, Bounds bounds, std::uint32_t& into) {
    std::uint64_t wide = into;
    number(name, bounds, wide);
    into = static_cast<std::uint32_t>(wide);
  }
  void milliseconds(const std::string& name, Bounds bounds, Duration& into) {
    std::uint64_t count = static_cast<std::uint64_t>(into / std::chrono::milliseconds(1));
    number(name, bounds, count);
    into = std::chrono::milliseconds(count);
  }
  /// One of two words.
  void choice(const std::string& name, std::string_view off, std::string_view on, bool& into) {
    const std::string* value = find(name);
    if (value == nullptr) return;
    if (*value != off && *value != on)
      return refuse(name, cat("is '", printable(*value), "'"), cat("use ", off, " or ", on));
    into = *value == on;
  }
  void refuse(const std::string& name, std::string_view why, std::string hint,
              Code code = Code::invalid_argument) {
    if (wrong.ok()) wrong = error(code, cat("object: ", name, " ", why), std::move(hint));
  }

  Status wrong;

 private:
  const backend::Params& params_;
};

void read_limits(ParamReader& reader, BackendOptions& options) {
  constexpr Bounds kConnections{1, 1024};
  constexpr Bounds kPart{64 << 10U, 5ULL << 30U};  // S3 takes parts of up to 5 GiB
  reader.number("num_threads", kConnections, options.connections);
  reader.number("connections", kConnections, options.connections);
  reader.number("part_bytes", kPart, options.part_bytes);
  reader.number("crtMinLimit", {0, kPart.high}, options.multipart_bytes);
  if (options.multipart_bytes == 0) options.multipart_bytes = BackendOptions().multipart_bytes;
  reader.number("multipart_bytes", {kPart.low, kPart.high}, options.multipart_bytes);
  reader.number("gap_bytes", {0, 64 << 20U}, options.gap_bytes);
  reader.number("max_attempts", {1, 100}, options.retry.max_attempts);
  reader.milliseconds("retry_delay_ms", {1, 60'000}, options.retry.first_delay);
  reader.milliseconds("timeout_ms", {1, 86'400'000}, options.timeout);
  reader.milliseconds("stall_ms", {1000, 86'400'000}, options.stall_timeout);
  options.retry.longest_delay = std::max(options.retry.longest_delay, options.retry.first_delay);
}

// Ways of NIXL's plug-in that need its own SDKs: taken when they ask for nothing.
void refuse_what_is_missing(ParamReader& reader) {
  bool accelerated = false;
  reader.choice("accelerated", "false", "true", accelerated);
  if (accelerated)
    reader.refuse("accelerated", "asks for RDMA between a GPU and the store",
                  "leave it away: bytes go over HTTP, through host memory", Code::unsupported);
  if (const std::string* type = reader.find("type"))
    reader.refuse("type", cat("is '", printable(*type), "', a vendor's accelerated store"),
                  "leave it away, and use the store's S3 interface", Code::unsupported);
}

void read_store(ParamReader& reader, BackendOptions& options) {
  std::string scheme = "https";
  std::string endpoint;
  reader.text("scheme", scheme);
  reader.text("endpoint_override", endpoint);
  reader.text("region", options.region);
  bool virtual_host = false;
  reader.choice("use_virtual_addressing", "false", "true", virtual_host);
  options.store = StoreAddress::of_amazon(options.region);
  options.store.scheme = scheme;
  if (!endpoint.empty()) {
    auto parsed = StoreAddress::parse(endpoint, scheme);
    if (parsed.ok())
      options.store = *std::move(parsed);
    else if (reader.wrong.ok())
      reader.wrong = parsed.status();
  }
  if (scheme != "http" && scheme != "https")
    reader.refuse("scheme", cat("is '", printable(scheme), "'"), "use http or https");
  options.store.style = virtual_host ? Style::virtual_host : Style::path;
}

}  // namespace

Result<BackendOptions> BackendOptions::parse(const backend::Params& params) {
  BackendOptions options;
  ParamReader reader(params);
  read_store(reader, options);
  reader.text("bucket", options.bucket);
  reader.text("ca_bundle", options.tls.authority_file);
  reader.choice("verify_tls", "false", "true", options.tls.verify);
  reader.text("access_key", options.credentials.access_key);
  reader.secret("secret_key", options.credentials.secret_key);
  reader.secret("session_token", options.credentials.session_token);
  reader.choice("sign_payload", "false", "true", options.sign_payload);
  reader.choice("req_checksum", "required", "supported", options.put_checksum);
  reader.choice("resp_checksum", "required", "supported", options.check_checksum);
  read_limits(reader, options);
  refuse_what_is_missing(reader);
  if (options.credentials.access_key.empty() != options.credentials.secret_key.empty())
    reader.refuse("access_key", "and secret_key belong together, and one is missing",
                  "give both, or none for a public bucket");
  if (!reader.wrong.ok()) return reader.wrong;
  if (!options.bucket.empty()) TOWPATH_TRY(check_bucket(options.bucket, options.store.style));
  return options;
}

backend::Params merge(const backend::Params& usual, const backend::Params& given) {
  backend::Params merged = given;
  const auto key = given.find("access_key");
  const bool own_credentials = key != given.end() && !key->second.empty();
  for (const auto& [name, value] : usual) {
    const bool credential = std::ranges::find(kCredentialNames, name) != kCredentialNames.end();
    if (!(credential && own_credentials)) merged.emplace(name, value);
  }
  return merged;
}

std::vector<backend::ParamInfo> BackendOptions::describe() {
  return {
      {"bucket", "", "of keys that name none (AWS_DEFAULT_BUCKET)"},
      {"endpoint_override", "",
       "http://HOST:PORT of the store (AWS_ENDPOINT_OVERRIDE); else Amazon's in the region"},
      {"scheme", "https", "http or https, where endpoint_override names none"},
      {"region", "us-east-1", "of the bucket (AWS_REGION)"},
      {"use_virtual_addressing", "false", "true: BUCKET.HOST/KEY instead of HOST/BUCKET/KEY"},
      {"access_key", "",
       "AWS_ACCESS_KEY_ID or ~/.aws/credentials where none is given; none: public"},
      {"secret_key", "", "belongs to access_key; never shown"},
      {"session_token", "", "of temporary credentials; never shown"},
      {"ca_bundle", "", "file of the authorities to trust instead of the system's (AWS_CA_BUNDLE)"},
      {"verify_tls", "true", "false: whoever answers is believed; for tests on one host"},
      {"connections", "16", "requests at a time, 1 to 1024"},
      {"num_threads", "", "NIXL's name for connections; there are no threads"},
      {"part_bytes", "8M", "of a part of a large read or write; most stores want at least 5M"},
      {"multipart_bytes", "16M", "longer writes go in parts, several at a time"},
      {"crtMinLimit", "0", "NIXL's name for multipart_bytes; 0: the default"},
      {"gap_bytes", "64K", "extents no further apart are read together"},
      {"sign_payload", "true",
       "false: the store does not check what is written (sensible with https)"},
      {"req_checksum", "required", "supported: the store keeps a SHA-256 of what is put whole"},
      {"resp_checksum", "required", "supported: it is asked for, and compared, when all is read"},
      {"max_attempts", "5", "of a request, 1 to 100"},
      {"retry_delay_ms", "100", "before the second attempt; doubles, with jitter, up to 20 s"},
      {"timeout_ms", "300000", "of one attempt"},
      {"stall_ms", "30000", "an attempt without a byte for so long is given up"},
      {"throughput_target_gbps", "10", "NIXL's; without effect here"},
      {"accelerated", "false", "NIXL's; true is refused"},
      {"type", "", "NIXL's; anything is refused"},
  };
}

}  // namespace towpath::backends::object
