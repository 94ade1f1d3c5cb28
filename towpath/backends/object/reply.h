// What a store's answer means: whether it did what was asked, and if not, why, whether to ask
// again, and what a person can do about it. Pure.
//
//   404 NoSuchKey             not_found          403 SignatureDoesNotMatch    denied
//   503 SlowDown              unavailable, again 416 InvalidRange             out_of_range
//
// Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <towpath/core/result.h>
#include <towpath/net/http.h>

namespace towpath::backends::object {

/// What failed, in the store's words.
struct StoreError {
  int status = 0;
  std::string
      code;  ///< "NoSuchKey"; made up from the status where the store says none; empty: unknown
  std::string message;
  std::string request_id;  ///< by which the store's operators find it in their logs
};

/// Of a response whose status says that it failed, or whose body does.
StoreError read_error(const net::HttpResponse& response);
/// `what` was asked: "GET s3://b/k".
Status status_of(const StoreError& said, std::string_view what);
/// Whether the same request may do better a moment later.
bool is_worth_a_retry(const StoreError& said);
/// The same of one that got no answer.
bool is_worth_a_retry(const Status& transport);

/// "bytes 5-10/4096".
struct ContentRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;              ///< inclusive
  std::optional<std::uint64_t> total;  ///< of the object; "*": nothing

  friend bool operator==(const ContentRange&, const ContentRange&) = default;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

/// A whole decimal number.
std::optional<std::uint64_t> parse_size(std::string_view text);

}  // namespace towpath::backends::object
