// A directory that removes itself and all that is in it, for tests and tools. In a forked child it
// stays: it is the parent's.
// Thread: any.
#pragma once

#include <string>
#include <utility>

#include <towpath/core/result.h>
#include <towpath/sys/own_process.h>

namespace towpath::sys {

class TemporaryDirectory {
 public:
  /// A new directory below `parent`, mode 0700. Errors: as mkdtemp(3).
  static Result<TemporaryDirectory> create(const std::string& parent = "/tmp");
  /// `path`, which somebody makes, or nobody.
  static TemporaryDirectory at(std::string path) { return TemporaryDirectory(std::move(path)); }

  TemporaryDirectory(TemporaryDirectory&& other) noexcept
      : path_(std::move(other.path_)), process_(other.process_) {
    other.path_.clear();
  }
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(process_, other.process_);
    return *this;
  }
  ~TemporaryDirectory();

  const std::string& path() const noexcept { return path_; }
  /// "path/name".
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit TemporaryDirectory(std::string path);

  std::string path_;    // empty: nothing to remove
  OwnProcess process_;  // whose it is
};

}  // namespace towpath::sys
