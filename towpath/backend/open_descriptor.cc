#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

#include <towpath/backend/open_descriptor.h>
#include <towpath/core/format.h>
#include <towpath/sys/os_error.h>

namespace towpath::backend {

Result<OpenDescriptor> identify_descriptor(int fd) {
  struct stat info {};
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fstat(fd, &info) != 0)
    return sys::os_error(errno, cat("descriptor ", fd, " of a disk region"),
                         "keep the file open while its region is registered");
  return OpenDescriptor{info.st_dev, info.st_ino, flags};
}

Status confirm_descriptor(int fd, const OpenDescriptor& file, std::string_view name) {
  TOWPATH_TRY(const OpenDescriptor now, identify_descriptor(fd));
  if (now.device == file.device && now.inode == file.inode) return {};
  return error(Code::already_exists,
               cat("descriptor ", fd, " is another file than ", name,
                   ", which is registered under this device id"),
               "take back what is registered under a descriptor's number before you close it");
}

}  // namespace towpath::backend
