// SharedDirectory: a directory through which processes, also of other hosts, leave each other small
// files: written whole under another name and renamed, so that a reader sees all of one or nothing.
//
// It is the directory that was opened, whatever its path means later: a process may go elsewhere.
// The file system's own clock says how old a file is, whichever host asks: a file of our own is
// touched and examined. Not the file seam (file.h): what is wanted here is ages and
// changes, not bytes that survive. Nothing is synced. Thread: any, but for watch(),
// take_changes() and keep_clock(): one at a time, and nothing else beside keep_clock().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/own_process.h>

namespace towpath::sys {

class SharedDirectory {
 public:
  /// Makes it, mode 0700, when there is none. Errors: denied (also: cannot be written), not_found.
  static Result<SharedDirectory> open(const std::string& path);
  SharedDirectory(SharedDirectory&&) noexcept = default;
  SharedDirectory& operator=(SharedDirectory&&) = delete;
  /// Removes the file that reported the time; not in a forked child.
  ~SharedDirectory();

  /// Mode 0600, in place of what was there. Errors: exhausted (no space), denied, io_error.
  Status replace(const std::string& name, ConstByteSpan bytes);
  struct Found {
    Bytes bytes;
    Duration age{0};
  };
  enum class Part : std::uint8_t { all, beginning };
  /// At most `most` bytes. Errors: not_found, out_of_range (it is longer, and all was wanted),
  /// corrupt (not a plain file), denied, io_error.
  Result<Found> read(const std::string& name, std::size_t most, Part part = Part::all);
  /// The same age, also of what may not be read. Errors: not_found, corrupt, denied, io_error.
  Result<Duration> age(const std::string& name);
  /// It is new again. Errors: not_found, denied.
  Status touch(const std::string& name);
  /// Errors: not_found, denied.
  Status remove(const std::string& name);
  /// Touches the file that reports the time, which others may take for one of the dead, and makes
  /// another when that fails. Errors: exhausted (no space), denied, io_error.
  Status keep_clock();
  /// In no order.
  Result<std::vector<std::string>> list() const;

  /// A descriptor that is readable after a process of this host has renamed or removed a file here
  /// (inotify); -1 where that cannot be had: then look from time to time. Others' changes over a
  /// network are not reported.
  int watch();
  void take_changes();

 private:
  SharedDirectory(std::string path, Fd directory, Fd clock, std::string clock_name);
  Status failed(const char* verb, const std::string& name, int errno_value) const;
  Result<Duration> now() const;  // since the epoch, as the file system counts

  std::string path_;
  Fd directory_;
  Fd clock_;
  std::string clock_name_;
  Fd changes_;
  OwnProcess process_;  // that made it
};

/// Files that begin so are of those who take part, and not what they leave for others.
inline constexpr std::string_view kOwnFilePrefix = ",";
/// Whether it is a name that such files have.
bool is_own_file(std::string_view name);

}  // namespace towpath::sys
