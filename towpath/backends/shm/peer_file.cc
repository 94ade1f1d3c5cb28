#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/backends/shm/peer_file.h>
#include <towpath/core/format.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/os_error.h>

namespace towpath::backends::shm {
namespace {

/// Why a descriptor of another process could not be opened, and what helps against that.
Status open_error(int errno_value, std::string what) {
  switch (errno_value) {
    case EACCES:
    case EPERM:
      return sys::os_error(errno_value, std::move(what),
                           "run both processes as the same user, dumpable "
                           "(prctl(PR_SET_DUMPABLE)), or grant CAP_SYS_PTRACE");
    case ENOENT:
      return sys::os_error(errno_value, std::move(what),
                           "load the peer's newest metadata, and see that /proc is mounted");
    default: return sys::os_error(errno_value, std::move(what));  // with the usual hint, if any
  }
}

std::string path_of(pid_t pid, const FileRef& file) { return cat("/proc/", pid, "/fd/", file.fd); }

/// Where a file of this type (S_IFMT) is: without opening it.
Result<sys::Fd> open_place(const std::string& path, const FileRef& file, mode_t type) {
  sys::Fd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!place) return open_error(errno, cat("cannot open ", path));
  struct stat info {};
  if (::fstat(place.get(), &info) != 0) return sys::os_error(errno, cat("cannot look at ", path));
  if (info.st_dev != file.device || info.st_ino != file.inode || (info.st_mode & S_IFMT) != type) {
    return error(Code::corrupt,
                 cat(path, " is not the ", type == S_IFREG ? "memfd" : "socket", " that was named"),
                 "load the peer's newest metadata");
  }
  return place;
}

/// Of a memfd that somebody else made, and does not call so, nothing that lies in it is believed.
Status check_name(const std::string& link, std::string_view name) {
  std::array<char, 300> text{};  // a memfd's name has 249 bytes at most: memfd_create(2)
  const ssize_t size = ::readlink(link.c_str(), text.data(), text.size());
  if (size < 0) return sys::os_error(errno, cat("cannot look at ", link));
  const std::string_view path(text.data(), static_cast<std::size_t>(size));
  if (path == cat("/memfd:", name, " (deleted)")) return {};
  return error(Code::corrupt, cat("'", printable(path), "' is not the memfd that was named"),
               "load the peer's newest metadata");
}

}  // namespace

Result<sys::Fd> open_peer_socket(pid_t pid, const FileRef& file) {
  return open_place(path_of(pid, file), file, S_IFSOCK);
}

Result<sys::Fd> open_peer_file(const PeerFile& what) {
  const std::string path = path_of(what.pid, what.file);
  TOWPATH_TRY(const sys::Fd place, open_place(path, what.file, S_IFREG));
  const std::string again = cat("/proc/self/fd/", place.get());
  if (!what.name.empty()) TOWPATH_TRY(check_name(again, what.name));
  const int access = what.writable ? O_RDWR : O_RDONLY;
  sys::Fd fd(::open(again.c_str(), access | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return open_error(errno, cat("cannot open the memfd behind ", path));
  TOWPATH_TRY(sys::check_sealed(fd.get(), 1));
  return fd;
}

Result<std::shared_ptr<PeerMapping>> PeerMapping::open(const PeerFile& what) {
  TOWPATH_TRY(const sys::Fd fd, open_peer_file(what));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return sys::os_error(errno, "cannot look at a memfd");
  TOWPATH_TRY(sys::Mapping mapping,
              sys::Mapping::of_file({.fd = fd.get(),
                                     .size_bytes = static_cast<std::uint64_t>(info.st_size),
                                     .writable = what.writable,
                                     .inherited = false}));
  return std::shared_ptr<PeerMapping>(new PeerMapping(what.file, std::move(mapping)));
}

Result<std::shared_ptr<PeerMapping>> PeerMappings::find_or_open(const PeerFile& what,
                                                                std::uint64_t end) {
  const File file{what.file.device, what.file.inode};
  // The inode cannot be reused while the mapping holds it; the descriptor number may differ.
  if (const auto known = open_.find(file); known != open_.end())
    if (auto mapping = known->second.lock(); mapping != nullptr && mapping->size() >= end)
      return mapping;
  TOWPATH_TRY(std::shared_ptr<PeerMapping> mapping, PeerMapping::open(what));
  if (open_.size() >= forget_at_) {
    std::erase_if(open_, [](const auto& known) { return known.second.expired(); });
    forget_at_ = std::max<std::size_t>(64, 2 * open_.size());
  }
  open_[file] = mapping;
  return mapping;
}

}  // namespace towpath::backends::shm
