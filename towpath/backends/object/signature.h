// AWS Signature Version 4, as pure functions of what is asked, by whom, and when.
//
// The three steps of the specification are functions of their own, so that a test can compare each
// with the published vectors, and an error with what the store says it expected.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/secret.h>

namespace towpath::backends::object {

/// Who asks.
struct Credentials {
  std::string access_key;
  Secret secret_key;
  Secret session_token;  ///< of temporary ones; else empty
};

using NameValue = std::pair<std::string, std::string>;

/// What is asked, unencoded unless said.
struct SignedParts {
  std::string method;
  std::string path;                ///< as it is sent: encoded, with the "/" in front
  std::vector<NameValue> query;    ///< in any order
  std::vector<NameValue> headers;  ///< those to sign; names in lower case, in any order
  std::string payload_hash;        ///< lower-case hex, or kUnsignedPayload
};

inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

/// Where and when a signature holds.
struct Scope {
  std::string time;  ///< "20130524T000000Z"
  std::string region;
  std::string service = "s3";

  std::string date() const { return time.substr(0, 8); }
  /// "20130524/us-east-1/s3/aws4_request".
  std::string to_string() const;
};

/// "20130524T000000Z"; `since_epoch` as Clock gives it.
std::string amazon_time(Duration since_epoch);

/// Everything but letters, digits, '-', '.', '_', '~' (and '/' where asked) as %XX.
enum class Slashes { kept, encoded };
std::string encode_uri(std::string_view text, Slashes slashes);

/// "acl=&list-type=2": encoded and in order, as it is both sent and signed.
std::string canonical_query(const std::vector<NameValue>& query);

std::string canonical_request(const SignedParts& parts);
std::string string_to_sign(const Scope& scope, std::string_view canonical_request);
/// The value of the header Authorization.
std::string authorization(const SignedParts& parts, const Scope& scope, const Credentials& who);

}  // namespace towpath::backends::object
