// A file with a secret that processes of one user share: found, or made by the first that needs it.
//
// It lies in a directory of its own, mode 0700, that belongs to this user. Whatever another user
// put there before, a directory, a link or a file, is refused and named. Nobody sees half a file.
// Thread: any.
#pragma once

#include <string>
#include <string_view>

#include <towpath/core/result.h>

namespace towpath::sys {

inline constexpr std::size_t kMaxPrivateFile = 4096;

/// The content of `path`; where there is no such file, one with `fresh` (not empty, at most
/// kMaxPrivateFile bytes) is made, with its directory. Of several that do so at once, one makes it.
/// Errors: denied (the directory or the file belongs to another user, is open to others, or cannot
/// be made), corrupt (no plain file, empty or too long), not_found (the directory's parent).
Result<std::string> find_or_make_private_file(const std::string& path, std::string_view fresh);

}  // namespace towpath::sys
