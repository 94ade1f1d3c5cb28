// What the file system knows of files, without opening them.
// Thread: any.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <towpath/backend/backend.h>

namespace towpath::backends::posix {

/// For each descriptor "size" (bytes), "mode" (octal, as 100600) and "mtime" (seconds since 1970,
/// with nine decimals); nothing where there is no such file or the kind is not disk. In their
/// order. Who is asked: the path when the key has a mode ("ro:/a/b", backend/path_mode.h), else the
/// open file when there is one (fd), else the path (key). Errors: denied, io_error (a file that may
/// be there but cannot be examined), invalid_argument (a mode that is none); the index is reported.
Result<std::vector<std::optional<backend::Params>>> query_files(
    std::span<const RegionDescriptor> descriptors);

}  // namespace towpath::backends::posix
