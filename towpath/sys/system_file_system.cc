#include <algorithm>
#include <cerrno>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <towpath/core/checked.h>
#include <towpath/sys/direct_probe.h>
#include <towpath/sys/open_rules.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/random.h>
#include <towpath/sys/system_file.h>

namespace towpath::sys {

using internal::check_open;
using internal::check_path;
using internal::quoted_path;
using internal::temporary_base;

namespace {

constexpr mode_t kFileMode = 0600;
constexpr mode_t kDirectoryMode = 0700;
constexpr int kTemporaryTries = 100;
constexpr int kTemporaryLetters = 6;

int open_retrying(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, kFileMode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

struct Opened {
  Fd fd;
  int errno_value = 0;
  std::string direct_refusal;
};

/// Opens; with `direct` once more without it when only O_DIRECT is refused.
Opened open_file(const std::string& path, int flags, bool direct) {
  if (direct) {
    Fd fd(open_retrying(path, flags | O_DIRECT));
    if (fd) return {.fd = std::move(fd)};
    if (errno != EINVAL) return {.errno_value = errno};
    // The refused open may have made the file already (open(2), O_DIRECT, BUGS).
    flags &= ~O_EXCL;
  }
  Fd fd(open_retrying(path, flags));
  const int reason = fd ? 0 : errno;
  return {.fd = std::move(fd),
          .errno_value = reason,
          .direct_refusal = direct ? cat("open(O_DIRECT): ", errno_text(EINVAL)) : std::string()};
}

/// Keeps O_DIRECT only when the probe believes in it.
Result<std::unique_ptr<File>> wrap(Opened opened, std::string path, bool direct, bool writable) {
  SystemFile::Parts parts{.fd = std::move(opened.fd),
                          .path = std::move(path),
                          .direct_refusal = std::move(opened.direct_refusal)};
  if (direct && parts.direct_refusal.empty()) {
    DirectProbe probe = probe_direct(parts.fd.get(), writable);
    parts.alignment = probe.alignment;
    parts.direct_refusal = std::move(probe.refusal);
    const int flags = ::fcntl(parts.fd.get(), F_GETFL);
    if (!probe.direct && ::fcntl(parts.fd.get(), F_SETFL, flags & ~O_DIRECT) != 0)
      return os_error(errno, cat("cannot give up O_DIRECT on ", quoted_path(parts.path)));
  }
  return std::make_unique<SystemFile>(std::move(parts));
}

/// What open(2) says of a link, and of a FIFO or socket that has nobody at its other end.
bool is_no_plain(int errno_value) { return errno_value == ELOOP || errno_value == ENXIO; }

Status no_plain_file(const std::string& path) {
  return error(Code::denied,
               cat(quoted_path(path), " is a link, a FIFO or a device where a file belongs"),
               "remove it, and see to it that others cannot write to the directory");
}

/// `base` with six letters that are new each time.
std::string fresh_name(const std::string& base) {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string name = base;
  std::uint64_t random = random_u64();
  for (int i = 0; i < kTemporaryLetters; ++i, random /= kLetters.size())
    name.push_back(kLetters[random % kLetters.size()]);
  return name;
}

}  // namespace

Result<std::unique_ptr<File>> SystemFileSystem::open(const std::string& path,
                                                     const OpenFile& options) {
  TOWPATH_TRY(check_open(path, options));
  const int flags = (options.writable ? O_RDWR : O_RDONLY) | (options.create ? O_CREAT : 0) |
                    (options.exclusive ? O_EXCL : 0) | (options.truncate ? O_TRUNC : 0) |
                    (options.plain ? O_NOFOLLOW | O_NONBLOCK : 0) |
                    (options.directory ? O_DIRECTORY : 0) | (options.claimed ? O_EXCL : 0);
  Opened opened = open_file(path, flags, options.direct);
  if (!opened.fd && options.plain && is_no_plain(opened.errno_value)) return no_plain_file(path);
  if (!opened.fd) return os_error(opened.errno_value, cat("cannot open ", quoted_path(path)));
  if (options.plain) {
    struct stat info {};
    if (::fstat(opened.fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return no_plain_file(path);
    // It was for the opening alone: before Linux 6.5 io_uring does not wait for a file that has it,
    // where the drive below cannot answer at once (dm-crypt), and ends every I/O with EAGAIN.
    const int kept = ::fcntl(opened.fd.get(), F_GETFL) & ~O_NONBLOCK;
    if (::fcntl(opened.fd.get(), F_SETFL, kept) != 0)
      return os_error(errno, cat("cannot give up O_NONBLOCK on ", quoted_path(path)));
  }
  return wrap(std::move(opened), path, options.direct, options.writable);
}

Result<std::unique_ptr<File>> SystemFileSystem::open_temporary(const OpenTemporary& options) {
  TOWPATH_TRY(check_path(options.where));
  const std::string base = temporary_base(options.where);
  const OpenFile open_options{
      .writable = true, .create = true, .exclusive = true, .direct = options.direct};
  for (int i = 0; i < kTemporaryTries; ++i) {
    const std::string path = fresh_name(base);
    auto file = open(path, open_options);
    if (file.code() == Code::already_exists) continue;
    if (file.ok() && !options.named) TOWPATH_TRY(remove(path));
    return file;
  }
  return error(Code::already_exists, cat("no new name found for ", quoted_path(options.where)));
}

Status SystemFileSystem::remove(const std::string& path) {
  TOWPATH_TRY(check_path(path));
  if (::unlink(path.c_str()) != 0) return os_error(errno, cat("cannot remove ", quoted_path(path)));
  return {};
}

Status SystemFileSystem::rename(const Rename& names) {
  TOWPATH_TRY(check_path(names.source));
  TOWPATH_TRY(check_path(names.target));
  if (::rename(names.source.c_str(), names.target.c_str()) != 0)
    return os_error(
        errno, cat("cannot rename ", quoted_path(names.source), " to ", quoted_path(names.target)));
  return {};
}

Status SystemFileSystem::make_directories(const std::string& path) {
  TOWPATH_TRY(check_path(path));
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), kDirectoryMode) != 0 && errno != EEXIST)
      return os_error(errno, cat("cannot make directory ", quoted_path(part)));
    if (end == std::string::npos) break;
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return os_error(errno, cat("cannot look at ", quoted_path(path)));
  if (!S_ISDIR(info.st_mode))
    return error(Code::already_exists, cat(quoted_path(path), " is there, and no directory"));
  return {};
}

Result<std::vector<std::string>> SystemFileSystem::list(const std::string& directory) {
  TOWPATH_TRY(check_path(directory));
  struct Close {
    void operator()(DIR* open) const { (void)::closedir(open); }
  };
  const std::unique_ptr<DIR, Close> open(::opendir(directory.c_str()));
  if (!open) return os_error(errno, cat("cannot list ", quoted_path(directory)));
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return os_error(errno, cat("cannot list all of ", quoted_path(directory)));
  std::sort(names.begin(), names.end());
  return names;
}

Status SystemFileSystem::sync_directory(const std::string& directory) {
  TOWPATH_TRY(check_path(directory));
  const Fd fd(open_retrying(directory, O_RDONLY | O_DIRECTORY));
  if (!fd) return os_error(errno, cat("cannot open directory ", quoted_path(directory)));
  if (::fsync(fd.get()) != 0) return os_error(errno, cat("cannot sync ", quoted_path(directory)));
  return {};
}

Result<std::uint64_t> SystemFileSystem::available_bytes(const std::string& path) {
  TOWPATH_TRY(check_path(path));
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0)
    return os_error(errno, cat("cannot ask for the space under ", quoted_path(path)));
  const auto bytes = checked_multiply(info.f_bavail, info.f_frsize);
  return bytes ? *bytes : UINT64_MAX;
}

PathKind SystemFileSystem::kind_of(const std::string& path) {
  struct stat info {};
  if (!check_path(path).ok() || ::stat(path.c_str(), &info) != 0) return PathKind::none;
  if (S_ISDIR(info.st_mode)) return PathKind::directory;
  if (S_ISREG(info.st_mode)) return PathKind::file;
  return S_ISBLK(info.st_mode) ? PathKind::drive : PathKind::other;
}

std::optional<FileIdentity> SystemFileSystem::identity_of(const std::string& path) {
  struct stat info {};
  if (!check_path(path).ok() || ::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileIdentity{.device = info.st_dev, .inode = info.st_ino};
}

}  // namespace towpath::sys
