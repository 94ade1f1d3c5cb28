// Status: the outcome of a call that returns nothing else. Eight bytes; null means ok.
//
// A failure carries a code for programs, a sentence with the values involved for people, the hint
// (what to do about it), the failure that caused it, and the source line. It is immutable and
// shared, so copies cost one counter. Thread: immutable.
#pragma once

#include <source_location>
#include <string>
#include <string_view>
#include <utility>

#include <towpath/core/code.h>

namespace towpath {

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
