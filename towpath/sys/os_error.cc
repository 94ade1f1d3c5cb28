#include <cerrno>
#include <cstring>
#include <string_view>

#include <towpath/sys/os_error.h>

namespace towpath::sys {
namespace {

std::string_view usual_hint(int errno_value) noexcept {
  switch (errno_value) {
    case ENOSPC: return "free space on this file system, or use another one";
    case EDQUOT: return "raise the disk quota of this user, or free space";
    case ENOMEM: return "free memory, or raise the limit that applies (ulimit -v, -l; cgroup)";
    case EMFILE: return "raise the limit of open files (ulimit -n)";
    case ENFILE: return "raise fs.file-max: the whole machine is out of open files";
    case EROFS: return "the file system is mounted read-only: use another place";
    default: return {};
  }
}

}  // namespace

Code code_of_errno(int errno_value) noexcept {
  switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOBUFS: return Code::exhausted;
    case EACCES:
    case EPERM:
    case EROFS: return Code::denied;
    case ENOENT:
    case ESRCH:
    case ENXIO:
    case ENODEV:
    case ENOTDIR: return Code::not_found;
    case EEXIST:
    case EADDRINUSE: return Code::already_exists;
    case EINVAL:
    case EBADF:
    case ENAMETOOLONG:
    case EISDIR: return Code::invalid_argument;
    case EOPNOTSUPP:
    case ENOSYS:
    case ENOTTY: return Code::unsupported;
    case EAGAIN:
    case EBUSY:
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ETIMEDOUT: return Code::unavailable;
    case EPIPE:
    case ECONNRESET: return Code::peer_lost;
    case ECANCELED: return Code::cancelled;
    default: return Code::io_error;
  }
}

std::string errno_text(int errno_value) {
  const char* text = ::strerrordesc_np(errno_value);  // no locale, no shared buffer
  const char* name = ::strerrorname_np(errno_value);
  return cat(text != nullptr ? text : "unknown error", " (", name != nullptr ? name : "errno", ", ",
             errno_value, ")");
}

Status os_error(int errno_value, std::string what, std::string hint, std::source_location where) {
  if (hint.empty()) hint = usual_hint(errno_value);
  return error(code_of_errno(errno_value), cat(what, ": ", errno_text(errno_value)),
               std::move(hint), where);
}

Status write_error(int errno_value, std::string what, std::source_location where) {
  if (errno_value != ENOMEM && errno_value != ENOBUFS)
    return os_error(errno_value, std::move(what), {}, where);
  return error(Code::unavailable, cat(what, ": ", errno_text(errno_value)),
               std::string(usual_hint(ENOMEM)), where);
}

}  // namespace towpath::sys
