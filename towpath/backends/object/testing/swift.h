// For tests: OpenStack Swift with its S3 interface (tests/process/swift_store.py), which checks
// signatures, on a free port. It ends, and its files go, when its standard input does: with this
// object, or with the test, however that ends.
// Thread: one at a time.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/backend/backend.h>
#include <towpath/core/check.h>
#include <towpath/core/text.h>
#include <towpath/sys/fd.h>

namespace towpath::backends::object::testing {

inline constexpr const char* kNoSwift = "Swift is missing: apt-get install python3-swift";
inline constexpr const char* kBucket = "towpath-test";

class Swift {
 public:
  static bool is_installed() {
    return ::access("/usr/lib/python3/dist-packages/swift/common/middleware/s3api", X_OK) == 0 &&
           ::access("/usr/bin/python3", X_OK) == 0;
  }

  Swift() {
    int input[2];
    int output[2];
    TOWPATH_CHECK(::pipe2(input, O_CLOEXEC) == 0 && ::pipe2(output, O_CLOEXEC) == 0, "no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(input[0], STDIN_FILENO);
      ::dup2(output[1], STDOUT_FILENO);
      // By its whole name: it looks for its modules beside whatever PATH finds under a short one.
      ::execl("/usr/bin/python3", "/usr/bin/python3", TOWPATH_SWIFT_STORE, nullptr);
      ::_exit(127);
    }
    ::close(input[0]);
    ::close(output[1]);
    alive_ = sys::Fd(input[1]);
    const sys::Fd said(output[0]);
    std::string line;
    char letter = 0;
    while (::read(said.get(), &letter, 1) == 1 && letter != '\n') line.push_back(letter);
    TOWPATH_CHECK(line.starts_with("ready "), "Swift does not start");
    port_ = line.substr(line.find(' ') + 1);
  }
  ~Swift() {
    alive_.reset();
    ::waitpid(pid_, nullptr, 0);
  }
  Swift(const Swift&) = delete;
  Swift& operator=(const Swift&) = delete;

  std::string url() const { return cat("http://127.0.0.1:", port_); }
  const std::string& port() const noexcept { return port_; }
  /// Who may do everything there. Retries come soon: a test waits for them.
  backend::Params params() const {
    return {{"endpoint_override", url()},
            {"bucket", kBucket},
            {"access_key", "test:tester"},
            {"secret_key", "testing"},
            {"retry_delay_ms", "1"}};
  }

 private:
  pid_t pid_ = -1;
  sys::Fd alive_;
  std::string port_;
};

}  // namespace towpath::backends::object::testing
