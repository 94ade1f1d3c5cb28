#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/backends/gds/gds_file.h>
#include <towpath/sys/os_error.h>

namespace towpath::backends::gds {
namespace {

/// What open(2) takes for a region's file. Errors: invalid_argument.
Result<std::string> path_of(const RegionDescriptor& region) {
  if (region.fd >= 0) return cat("/proc/self/fd/", region.fd);
  if (!region.key.empty() && region.key.find('\0') == std::string::npos) return region.key;
  return error(Code::invalid_argument, cat(to_string(region), " names no open file"),
               "set RegionDescriptor::fd to the open file, or key to its path");
}

std::string name_of(const RegionDescriptor& region) {
  return region.key.empty() ? cat("fd ", region.fd) : cat("'", printable(region.key, 256), "'");
}

/// As the user opened it, or for reading and writing where a path is all there is.
Result<int> access_of(const RegionDescriptor& region, const std::string& path) {
  if (region.fd < 0) return ::access(path.c_str(), W_OK) == 0 ? O_RDWR : O_RDONLY;
  const int flags = ::fcntl(region.fd, F_GETFL);
  if (flags < 0)
    return sys::os_error(errno, cat("descriptor ", region.fd, " of a disk region"),
                         "keep the file open while its region is registered");
  return flags & (O_ACCMODE | O_SYNC | O_DSYNC);
}

}  // namespace

Result<GdsFile::Place> GdsFile::place_of(const RegionDescriptor& region) {
  TOWPATH_TRY(const std::string path, path_of(region));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return sys::os_error(errno, cat("cannot look at ", name_of(region)));
  if (S_ISREG(info.st_mode)) return Place{.device = info.st_dev};
  if (S_ISBLK(info.st_mode)) return Place{.device = info.st_rdev, .is_drive = true};
  // A directory or a FIFO says nothing about the file system that it is on.
  return error(Code::invalid_argument, cat(name_of(region), " is neither a file nor a drive"),
               "use a regular file, or a block device");
}

Result<std::shared_ptr<GdsFile>> GdsFile::open(std::shared_ptr<const CuFile> cufile,
                                               const RegionDescriptor& region) {
  TOWPATH_TRY(const std::string path, path_of(region));
  TOWPATH_TRY(const int access, access_of(region, path));
  Parts parts{.cufile = std::move(cufile), .name = name_of(region)};
  parts.readable = (access & O_ACCMODE) != O_WRONLY;
  parts.writable = (access & O_ACCMODE) != O_RDONLY;
  parts.fd.reset(::open(path.c_str(), access | O_DIRECT | O_CLOEXEC));
  if (!parts.fd) {
    const Status refused = sys::os_error(errno, cat("cannot open ", parts.name, " with O_DIRECT"));
    if (errno != EINVAL || !parts.cufile->may_stage()) return refused;
    parts.direct_refusal = refused.to_string();
    parts.fd.reset(::open(path.c_str(), access | O_CLOEXEC));
    if (!parts.fd) return sys::os_error(errno, cat("cannot open ", parts.name));
  }
  struct stat info {};
  if (::fstat(parts.fd.get(), &info) != 0)
    return sys::os_error(errno, cat("cannot look at ", parts.name));
  parts.identity = {info.st_dev, info.st_ino, access};
  cufile::FileDescription description;
  description.fd = parts.fd.get();
  cufile::FileHandle handle = nullptr;
  const CuFile& library = *parts.cufile;
  TOWPATH_TRY(library.check(library.call().register_file(&handle, &description),
                            "libcufile does not take ", parts.name));
  return std::make_shared<GdsFile>(std::move(parts), handle);
}

Status GdsFile::confirm(const RegionDescriptor& region) const {
  if (region.fd < 0) return {};
  return backend::confirm_descriptor(region.fd, identity(), parts_.name);
}

std::string GdsFile::describe() const {
  if (parts_.direct_refusal.empty()) return "file with O_DIRECT";
  return cat("file through the page cache (", parts_.direct_refusal, ")");
}

}  // namespace towpath::backends::gds
