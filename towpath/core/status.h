// Status: the outcome of a call that returns nothing else. Eight bytes; null means ok.
//
// A failure carries a code for programs, a sentence with the values involved for people, the hint
// (what to do about it), the failure that caused it, and the source line. It is immutable and
// shared, so copies cost one counter. Thread: immutable.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

namespace towpath {

// The ways a call can fail, as numbers that stay the same in every language.
//
// A program acts on the code; a person reads the sentence beside it.
// Values are part of the C interface: never renumber, only append.
// Thread: immutable.
enum class Code : std::uint8_t {
  ok = 0,
  invalid_argument = 1,  ///< the call is wrong whatever the state of the world
  out_of_range = 2,      ///< an index, offset or length lies outside what it points into
  not_found = 3,         ///< no such peer, registration, file, backend, block
  already_exists = 4,    ///< the name or place is taken
  not_ready = 5,         ///< right call, wrong moment: not posted, still active, closed
  unsupported = 6,       ///< this build, machine or backend cannot do it; the message says which
  unavailable = 7,       ///< it could work, but the other side does not answer now; may be retried
  exhausted = 8,         ///< memory, disk space, descriptors or queue slots ran out
  denied = 9,            ///< permissions, limits or a policy refuse it
  timed_out = 10,        ///< the deadline passed first
  cancelled = 11,        ///< the caller asked for it to stop
  peer_lost = 12,        ///< the other agent died, restarted or was cut off
  corrupt = 13,          ///< bytes are not what their digest, checksum or format promises
  io_error = 14,         ///< the kernel or the device reported an error
  no_telemetry = 15,     ///< figures were asked for that were not, or not yet, recorded
  internal = 16,         ///< a fault of Towpath itself; please report it
};

/// The enumerator's own name: "invalid_argument". Unknown values give "unknown".
std::string_view name_of(Code code) noexcept;

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;  ///< ok
  Status(const Status& other) noexcept : rep_(other.rep_) {
    if (rep_ != nullptr) hold();
  }
  Status(Status&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
  Status& operator=(Status other) noexcept {
    std::swap(rep_, other.rep_);
    return *this;
  }
  ~Status() {
    if (rep_ != nullptr) let_go();
  }

  bool ok() const noexcept { return rep_ == nullptr; }
  Code code() const noexcept;
  /// What went wrong, with the values involved. Empty when ok.
  std::string_view message() const noexcept;
  /// What the caller can do about it. Empty when there is nothing to say.
  std::string_view hint() const noexcept;
  /// The failure underneath, or ok.
  Status cause() const noexcept;
  std::source_location where() const noexcept;

  /// One line: "io_error: cannot open 'x' (hint: ...) <- denied: ...". "ok" when ok.
  std::string to_string() const;

  /// The same failure with `cause` underneath. Use: `return error(...).because(lower);`
  Status because(Status cause) &&;

  /// Equal codes and messages; used by tests.
  friend bool operator==(const Status& a, const Status& b) noexcept;

 private:
  struct Rep;
  // Only of a failure: what went well costs a comparison.
  void hold() const noexcept;
  void let_go() noexcept;
  explicit Status(Rep* rep) noexcept : rep_(rep) {}
  friend Status error(Code, std::string, std::string, std::source_location);

  Rep* rep_ = nullptr;
};

/// Makes a failure. `code` must not be `ok`.
Status error(Code code, std::string message, std::string hint = {},
             std::source_location where = std::source_location::current());

}  // namespace towpath
