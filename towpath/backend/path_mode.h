// PathMode: a file named by path, with how it is to be opened, in the one string that a
// registration has for it. NIXL's users write it into a descriptor's metadata.
//
//   ("ro" | "rw") {"," ("direct" | "sync" | "noatime" | "create")} ":" path
//
// A text that does not begin like that is a plain path. One that does, and is none, is an error: a
// misspelt option must not become a strange file name. "./rw:x" is how to say the path "rw:x".
// Thread: immutable.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <towpath/core/result.h>
#include <towpath/sys/fd.h>

namespace towpath::backend {

struct PathMode {
  bool writable = false;
  bool direct = false;   ///< O_DIRECT; where the file system refuses it, through the page cache
  bool sync = false;     ///< O_DSYNC: a write is done when it is on the disk
  bool noatime = false;  ///< O_NOATIME; only the owner of a file may ask for it
  bool create = false;   ///< made, with mode 0600, when it is not there; needs writable
  std::string path;

  /// Nothing: `text` is a plain path. Errors: invalid_argument.
  static Result<std::optional<PathMode>> parse(std::string_view text);
};

/// A file that a backend opened itself.
struct OpenedPath {
  sys::Fd fd;
  std::string direct_refusal;  ///< why it is not O_DIRECT although that was wanted
};

/// Never blocks, not even on a pipe. Errors: not_found, denied, and others of open(2).
Result<OpenedPath> open_path(const PathMode& mode);
/// For reading and writing, or for reading where no more is allowed.
Result<OpenedPath> open_plain_path(const std::string& path);

}  // namespace towpath::backend
