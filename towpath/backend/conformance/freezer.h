// Freezer: a control group of the kernel in which a process stands still (a paused container).
//
// Unlike SIGSTOP it is not seen in the process's state, and needs the right to make such groups.
// Thread: one.
#pragma once

#include <memory>
#include <string>

#include <sys/types.h>

#include <towpath/core/result.h>

namespace towpath::backend::conformance {

class Freezer {
 public:
  /// In version 2 of the kernel's groups, else 1. Errors: unsupported (neither is there, or not
  /// for this user).
  static Result<std::unique_ptr<Freezer>> make();
  /// Lets go on whatever is inside; the process must have ended, or the group stays.
  ~Freezer();
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;

  Status add(pid_t process) const;
  /// Returns when the process stands still.
  Status freeze() const;
  void thaw() const;

 private:
  struct Kind;
  Freezer(const Kind& kind, std::string directory)
      : kind_(kind), directory_(std::move(directory)) {}
  static const Kind kKinds[];

  const Kind& kind_;
  const std::string directory_;
};

}  // namespace towpath::backend::conformance
