// Fd: an open file descriptor with one owner. It closes when it dies.
//
// It is not a file: reading and writing are in file.h. Errors of close(2) are not reported; what
// must be known to be on the disk is synced first (File::sync). Thread: any, as an int.
#pragma once

#include <cstddef>
#include <utility>

#include <towpath/core/result.h>

namespace towpath::sys {

class Fd {
 public:
  Fd() noexcept = default;
  /// Takes `fd` over; -1 is none.
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

  /// Gives the descriptor away: the caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  /// Closes what is held and takes `fd` over.
  void reset(int fd = -1) noexcept;

  /// A second descriptor of the same open file (one file position, one set of flags),
  /// close-on-exec. Errors: not_ready (nothing is open), exhausted (no descriptor is free).
  Result<Fd> duplicate() const;

 private:
  int fd_ = -1;
};

/// So many of the descriptors that this process may have are one part of `parts`; at least 1 and at
/// most `most`. What unauthenticated connections or peers can take is bounded so: the others are
/// this process's own.
std::size_t share_of_descriptors(std::size_t parts, std::size_t most) noexcept;

}  // namespace towpath::sys
