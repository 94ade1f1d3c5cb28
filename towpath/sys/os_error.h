// The kernel's errno as a Status.
//
//   code             errno
//   exhausted        ENOSPC EDQUOT ENOMEM EMFILE ENFILE ENOBUFS
//   denied           EACCES EPERM EROFS
//   not_found        ENOENT ESRCH ENXIO ENODEV ENOTDIR
//   already_exists   EEXIST EADDRINUSE
//   invalid_argument EINVAL EBADF ENAMETOOLONG EISDIR
//   unsupported      EOPNOTSUPP ENOSYS ENOTTY
//   unavailable      EAGAIN EBUSY ECONNREFUSED ETIMEDOUT
//   peer_lost        EPIPE ECONNRESET
//   cancelled        ECANCELED
//   io_error         the rest
//
// Thread: any.
#pragma once

#include <source_location>
#include <string>

#include <towpath/core/format.h>
#include <towpath/core/status.h>

namespace towpath::sys {

/// The code that a program should act on; see the table.
Code code_of_errno(int errno_value) noexcept;

/// "No space left on device (ENOSPC, 28)".
std::string errno_text(int errno_value);

/// The failure "`what`: No space left on device (ENOSPC, 28)". An empty `hint` gets the usual one
/// for this errno, where there is one. `errno_value` is positive.
Status os_error(int errno_value, std::string what, std::string hint = {},
                std::source_location where = std::source_location::current());

/// The same of a write to a file, where `exhausted` says that there is no space on the disk: ENOMEM
/// and ENOBUFS are `unavailable` here, since no space that is freed would help.
Status write_error(int errno_value, std::string what,
                   std::source_location where = std::source_location::current());

}  // namespace towpath::sys
