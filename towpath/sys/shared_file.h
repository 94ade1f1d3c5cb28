// Files with a name that several processes map: made with their space, opened with care.
//
// A name is no proof of what lies behind it: a file may have been replaced since it was reported.
// Who knows its device and inode compares them. Thread: any.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/core/result.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/file.h>

namespace towpath::sys {

struct SharedFile {
  Fd fd;
  FileIdentity identity;
  std::uint64_t size_bytes = 0;
};

struct CreateSharedFile {
  std::string path;
  std::uint64_t size_bytes = 0;
};

/// A new file of zeros with mode 0600, whose space is there; nothing is left when that fails.
/// Errors: invalid_argument (size 0), already_exists, exhausted, denied.
Result<SharedFile> create_shared_file(const CreateSharedFile& options);

/// Opens a file for reading and writing; a link in the last place is not followed. Close-on-exec.
/// Errors: not_found, denied, unsupported (a link, or no regular file).
Result<SharedFile> open_shared_file(const std::string& path);

}  // namespace towpath::sys
