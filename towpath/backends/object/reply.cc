#include <algorithm>
#include <array>
#include <charconv>

#include <towpath/backends/object/reply.h>
#include <towpath/backends/object/xml.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {
namespace {

struct Meaning {
  std::string_view name;
  Code code;
  bool again;
  std::string_view hint;
};

constexpr std::string_view kKeys =
    "see access_key, secret_key and session_token: parameters, AWS_* variables, ~/.aws/credentials";
constexpr std::string_view kLater =
    "the store is busy: it was asked again several times; ask later";

// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
constexpr std::array kMeanings = {
    Meaning{"NoSuchKey", Code::not_found, false, "put the object before reading it"},
    Meaning{"NoSuchBucket", Code::not_found, false, "make the bucket, or name another one"},
    Meaning{"NoSuchUpload", Code::not_found, false, "the upload was aborted meanwhile: post again"},
    Meaning{"AccessDenied", Code::denied, false,
            "see whether the keys are right, and give them this right in the bucket's policy"},
    Meaning{"SignatureDoesNotMatch", Code::denied, false, kKeys},
    Meaning{"InvalidAccessKeyId", Code::denied, false, kKeys},
    Meaning{"InvalidToken", Code::denied, false, kKeys},
    Meaning{"ExpiredToken", Code::denied, false, "get new temporary credentials"},
    Meaning{"AuthorizationHeaderMalformed", Code::denied, false,
            "see whether `region` is the bucket's"},
    Meaning{"RequestTimeTooSkewed", Code::denied, false,
            "set this machine's clock: it is more than 15 minutes off the store's"},
    Meaning{"BucketAlreadyOwnedByYou", Code::already_exists, false, "use it, or another name"},
    Meaning{"BucketAlreadyExists", Code::already_exists, false, "it is another's: choose a name"},
    Meaning{"InvalidRange", Code::out_of_range, false,
            "the object is shorter: read what was written"},
    Meaning{"BadDigest", Code::corrupt, true, "bytes changed on their way to the store"},
    Meaning{"XAmzContentSHA256Mismatch", Code::corrupt, true,
            "bytes changed on their way to the store, or the memory while it was written"},
    Meaning{"InvalidBucketName", Code::invalid_argument, false, "name another bucket"},
    Meaning{"KeyTooLongError", Code::invalid_argument, false, "use keys of at most 1024 bytes"},
    Meaning{"EntityTooLarge", Code::invalid_argument, false,
            "put it in parts: lower multipart_bytes"},
    Meaning{"EntityTooSmall", Code::invalid_argument, false,
            "raise part_bytes: most stores want parts of at least 5 MiB"},
    Meaning{"InvalidPart", Code::unavailable, false, "a part is lost: post again"},
    Meaning{"PermanentRedirect", Code::invalid_argument, false,
            "set `region` and `endpoint_override` to those of the bucket"},
    Meaning{"NotImplemented", Code::unsupported, false, "use a store that can do this"},
    Meaning{"QuotaExceeded", Code::exhausted, false, "make room, or raise the quota"},
    Meaning{"RequestTimeout", Code::timed_out, true, kLater},
    Meaning{"SlowDown", Code::unavailable, true, kLater},
    Meaning{"ServiceUnavailable", Code::unavailable, true, kLater},
    Meaning{"InternalError", Code::unavailable, true, kLater},
    Meaning{"OperationAborted", Code::unavailable, true, kLater},
};

/// What a status means where the store gives no code that we know.
struct StatusMeaning {
  int status;
  std::string_view name;
};
constexpr std::array kStatusNames = {
    StatusMeaning{301, "PermanentRedirect"},  StatusMeaning{307, "PermanentRedirect"},
    StatusMeaning{401, "AccessDenied"},       StatusMeaning{403, "AccessDenied"},
    StatusMeaning{404, "NoSuchKey"},          StatusMeaning{408, "RequestTimeout"},
    StatusMeaning{416, "InvalidRange"},       StatusMeaning{429, "SlowDown"},
    StatusMeaning{500, "InternalError"},      StatusMeaning{501, "NotImplemented"},
    StatusMeaning{502, "ServiceUnavailable"}, StatusMeaning{503, "ServiceUnavailable"},
    StatusMeaning{504, "ServiceUnavailable"}, StatusMeaning{507, "QuotaExceeded"},
};

const Meaning* find(std::string_view name) {
  const auto* found = std::ranges::find(kMeanings, name, &Meaning::name);
  return found == kMeanings.end() ? nullptr : found;
}

std::string_view name_of_status(int status) {
  const auto* found = std::ranges::find(kStatusNames, status, &StatusMeaning::status);
  return found == kStatusNames.end() ? std::string_view() : found->name;
}

Meaning meaning_of(const StoreError& said) {
  if (const Meaning* known = find(said.code)) return *known;
  if (const Meaning* known = find(name_of_status(said.status))) return *known;
  if (said.status / 100 == 4) return {said.code, Code::invalid_argument, false, {}};
  return {said.code, Code::io_error, false, "see the store's own logs"};
}

}  // namespace

StoreError read_error(const net::HttpResponse& response) {
  StoreError said{.status = response.status,
                  .request_id = std::string(response.header("x-amz-request-id"))};
  const auto xml = parse_xml(as_text(response.body));
  if (xml.ok() && xml->name == "Error") {
    said.code = xml->field("Code");
    said.message = xml->field("Message");
  }
  if (said.code.empty()) said.code = name_of_status(response.status);
  return said;
}

Status status_of(const StoreError& said, std::string_view what) {
  const Meaning meaning = meaning_of(said);
  std::string message =
      cat(what, ": ", printable(said.code), said.code.empty() ? "" : ", ", "status ", said.status);
  if (!said.message.empty()) message += cat(": ", printable(said.message, 300));
  if (!said.request_id.empty()) message += cat(" [request ", printable(said.request_id), "]");
  return error(meaning.code, std::move(message), std::string(meaning.hint));
}

bool is_worth_a_retry(const StoreError& said) { return meaning_of(said).again; }

bool is_worth_a_retry(const Status& transport) {
  return transport.code() == Code::unavailable || transport.code() == Code::timed_out;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const auto dash = text.find('-');
  const auto slash = text.find('/');
  if (!text.starts_with(kUnit) || dash == std::string_view::npos ||
      slash == std::string_view::npos || dash > slash)
    return std::nullopt;
  const auto first = parse_size(text.substr(kUnit.size(), dash - kUnit.size()));
  const auto last = parse_size(text.substr(dash + 1, slash - dash - 1));
  const std::string_view total = text.substr(slash + 1);
  if (!first || !last || *last < *first) return std::nullopt;
  ContentRange range{*first, *last, parse_size(total)};
  if (!range.total && total != "*") return std::nullopt;
  if (range.total && *range.total <= *last) return std::nullopt;
  return range;
}

}  // namespace towpath::backends::object
