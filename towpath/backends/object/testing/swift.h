// For tests: OpenStack Swift with its S3 interface (tests/process/swift_store.py), which checks
// signatures, on a free port. It ends, and its files go, when its standard input does: with this
// object, or with the test, however that ends.
// Thread: one at a time.
#pragma once

#include <string>

#include <unistd.h>

#include <towpath/backend/backend.h>
#include <towpath/backends/object/testing/script_server.h>
#include <towpath/core/format.h>

namespace towpath::backends::object::testing {

inline constexpr const char* kNoSwift = "Swift is missing: apt-get install python3-swift";
inline constexpr const char* kBucket = "towpath-test";

class Swift {
 public:
  static bool is_installed() {
    return ::access("/usr/lib/python3/dist-packages/swift/common/middleware/s3api", X_OK) == 0 &&
           ScriptServer::is_installed();
  }

  std::string url() const { return cat("http://127.0.0.1:", port()); }
  const std::string& port() const noexcept { return server_.port(); }
  /// Who may do everything there. Retries come soon: a test waits for them.
  backend::Params params() const {
    return {{"endpoint_override", url()},
            {"bucket", kBucket},
            {"access_key", "test:tester"},
            {"secret_key", "testing"},
            {"retry_delay_ms", "1"}};
  }

 private:
  ScriptServer server_{{TOWPATH_SWIFT_STORE}};
};

}  // namespace towpath::backends::object::testing
