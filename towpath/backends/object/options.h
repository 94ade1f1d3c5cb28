// The parameters of an object backend, read and checked. They have NIXL's names where NIXL has one.
// Thread: immutable.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <towpath/backend/registry.h>
#include <towpath/backends/object/signature.h>
#include <towpath/backends/object/store_address.h>
#include <towpath/core/clock.h>
#include <towpath/net/http.h>

namespace towpath::backends::object {

// When to ask again: exponential back-off with jitter, so that those who were refused together do
// not come back together. Pure.
// Thread: any.
struct RetryPolicy {
  std::uint32_t max_attempts = 5;  ///< the first one included
  Duration first_delay = std::chrono::milliseconds(100);
  Duration longest_delay = std::chrono::seconds(20);

  bool allows_another(std::uint32_t attempts) const noexcept { return attempts < max_attempts; }

  /// How long to wait after `attempts` (at least 1) of them; `random` is any 64 bits. Between half
  /// of the back-off and all of it; never less than `asked_for`, which the store may have said.
  Duration delay(std::uint32_t attempts, std::uint64_t random,
                 Duration asked_for = Duration::zero()) const noexcept {
    const std::int64_t factor = std::int64_t{1} << std::min<std::uint32_t>(attempts - 1, 30);
    const Duration whole =
        first_delay <= longest_delay / factor ? first_delay * factor : longest_delay;
    const Duration half = whole / 2;
    const Duration jitter(
        static_cast<std::int64_t>(random % (static_cast<std::uint64_t>(half.count()) + 1)));
    return std::max(half + jitter, std::min(asked_for, longest_delay));
  }
};

struct BackendOptions {
  StoreAddress store;
  std::string bucket;  ///< of keys that name none
  std::string region = "us-east-1";
  Credentials credentials;  ///< no access key: requests are not signed
  net::TlsOptions tls;
  std::uint32_t connections = 16;                ///< requests at a time
  std::uint64_t part_bytes = 8ULL << 20U;        ///< of a part of a large read or write
  std::uint64_t multipart_bytes = 16ULL << 20U;  ///< longer writes go in parts
  std::uint64_t gap_bytes = 64ULL << 10U;        ///< what is read and thrown away between extents
  bool sign_payload = true;
  bool put_checksum = false;    ///< the store keeps a checksum of what is put
  bool check_checksum = false;  ///< and is asked for it when all of an object is read
  RetryPolicy retry;
  Duration timeout = std::chrono::minutes(5);  ///< of a request
  Duration stall_timeout = std::chrono::seconds(30);

  /// Errors: invalid_argument (a value that is none, or outside its bounds), unsupported (a way of
  /// NIXL's plug-in that we do not have).
  static Result<BackendOptions> parse(const backend::Params& params);
  static std::vector<backend::ParamInfo> describe();
};

/// `given` over `usual`. Credentials are taken together: with an access key of its own nothing of
/// the usual ones is used.
backend::Params merge(const backend::Params& usual, const backend::Params& given);

}  // namespace towpath::backends::object
