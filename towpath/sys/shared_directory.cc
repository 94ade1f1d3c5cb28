#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/file.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/random.h>
#include <towpath/sys/shared_directory.h>

namespace towpath::sys {
namespace {

constexpr int kNewFile = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

std::string own_name() { return cat(kOwnFilePrefix, getpid(), "-", hex(random_u64())); }

Duration modified(const struct stat& about) {
  return std::chrono::seconds(about.st_mtim.tv_sec) +
         std::chrono::nanoseconds(about.st_mtim.tv_nsec);
}

// 0, or why not.
int write_all(int fd, ConstByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno != EINTR) return errno;
    if (wrote > 0) bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return 0;
}

}  // namespace

bool is_own_file(std::string_view name) {
  constexpr std::string_view kMiddle = "-0x";  // of own_name()
  if (!name.starts_with(kOwnFilePrefix)) return false;
  name.remove_prefix(kOwnFilePrefix.size());
  const std::size_t middle = name.find(kMiddle);
  if (middle == std::string_view::npos) return false;
  const auto is_of = [](std::string_view letters, std::string_view text) {
    return !text.empty() && text.find_first_not_of(letters) == std::string_view::npos;
  };
  return is_of("0123456789", name.substr(0, middle)) &&
         is_of("0123456789abcdef", name.substr(middle + kMiddle.size()));
}

Result<SharedDirectory> SharedDirectory::open(const std::string& path) {
  TOWPATH_TRY(SystemFileSystem().make_directories(path));
  Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return os_error(errno, cat("cannot open the directory ", printable(path, 256)));
  std::string name = own_name();
  Fd clock(::openat(directory.get(), name.c_str(), kNewFile, 0600));
  if (!clock) return os_error(errno, cat("cannot write into ", printable(path, 256)));
  return SharedDirectory(path, std::move(directory), std::move(clock), std::move(name));
}

SharedDirectory::SharedDirectory(std::string path, Fd directory, Fd clock, std::string clock_name)
    : path_(std::move(path)),
      directory_(std::move(directory)),
      clock_(std::move(clock)),
      clock_name_(std::move(clock_name)) {}

SharedDirectory::~SharedDirectory() {
  if (clock_ && process_.is_this()) ::unlinkat(directory_.get(), clock_name_.c_str(), 0);
}

Status SharedDirectory::failed(const char* verb, const std::string& name, int errno_value) const {
  return os_error(errno_value, cat("cannot ", verb, " ", printable(cat(path_, "/", name), 256)));
}

Status SharedDirectory::keep_clock() {
  if (touch(clock_name_).ok()) return {};
  std::string name = own_name();
  Fd clock(::openat(directory_.get(), name.c_str(), kNewFile, 0600));
  if (!clock) return failed("make", name, errno);
  (void)remove(std::exchange(clock_name_, std::move(name)));
  clock_ = std::move(clock);
  return {};
}

Result<Duration> SharedDirectory::now() const {
  struct stat about {};
  if (::futimens(clock_.get(), nullptr) != 0 || ::fstat(clock_.get(), &about) != 0)
    return failed("touch", clock_name_, errno);
  return modified(about);
}

Status SharedDirectory::replace(const std::string& name, ConstByteSpan bytes) {
  const std::string fresh = own_name();
  Fd file(::openat(directory_.get(), fresh.c_str(), kNewFile, 0600));
  if (!file) return failed("make", fresh, errno);
  int wrong = write_all(file.get(), bytes);
  if (wrong == 0 && ::close(file.release()) != 0)
    wrong = errno;  // a network's file system reports errors now
  if (wrong == 0 &&
      ::renameat(directory_.get(), fresh.c_str(), directory_.get(), name.c_str()) != 0)
    wrong = errno;
  if (wrong == 0) return {};
  ::unlinkat(directory_.get(), fresh.c_str(), 0);
  return failed("write", name, wrong);
}

Result<SharedDirectory::Found> SharedDirectory::read(const std::string& name, std::size_t most,
                                                     Part part) {
  // Whatever lies there: a link is not followed, a pipe is not waited for.
  const Fd file(
      ::openat(directory_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return failed("open", name, errno);
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return failed("look at", name, errno);
  if (!S_ISREG(about.st_mode))
    return error(Code::corrupt, cat(printable(name, 256), " is no plain file"));
  if (part == Part::all && static_cast<std::uint64_t>(about.st_size) > most)
    return error(Code::out_of_range, cat(printable(name, 256), " has ", about.st_size,
                                         " bytes; at most ", most, " are taken"));
  Found found{.bytes = Bytes(std::min<std::uint64_t>(most, about.st_size))};
  std::size_t got = 0;
  while (got < found.bytes.size()) {
    const ssize_t more = ::read(file.get(), found.bytes.data() + got, found.bytes.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return failed("read", name, errno);
    if (more == 0) break;
    got += static_cast<std::size_t>(more);
  }
  found.bytes.resize(got);
  TOWPATH_TRY(const Duration at, now());
  found.age = std::max(at - modified(about), Duration(0));
  return found;
}

// Opened where that may be: a network's file system shows a file's new time to those that open it.
Result<Duration> SharedDirectory::age(const std::string& name) {
  const Result<Found> found = read(name, 0, Part::beginning);
  if (found.ok()) return found->age;
  if (found.code() != Code::denied) return found.status();
  struct stat about {};
  if (::fstatat(directory_.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
    return failed("look at", name, errno);
  if (!S_ISREG(about.st_mode))
    return error(Code::corrupt, cat(printable(name, 256), " is no plain file"));
  TOWPATH_TRY(const Duration at, now());
  return std::max(at - modified(about), Duration(0));
}

Status SharedDirectory::touch(const std::string& name) {
  if (::utimensat(directory_.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) return {};
  return failed("touch", name, errno);
}

Status SharedDirectory::remove(const std::string& name) {
  if (::unlinkat(directory_.get(), name.c_str(), 0) == 0) return {};
  return failed("remove", name, errno);
}

// By the descriptor, as all else: a relative path names another directory after a chdir(2).
Result<std::vector<std::string>> SharedDirectory::list() const {
  struct Close {
    void operator()(DIR* open) const { (void)::closedir(open); }
  };
  Fd again(::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, Close> open(again ? ::fdopendir(again.get()) : nullptr);
  if (!open) return failed("list", ".", errno);
  (void)again.release();  // `open` closes it
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return failed("list", ".", errno);
  std::ranges::sort(names);
  return names;
}

int SharedDirectory::watch() {
  if (!changes_) {
    Fd changes(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    const std::string here = cat("/proc/self/fd/", directory_.get());
    const bool watches = changes && ::inotify_add_watch(changes.get(), here.c_str(),
                                                        IN_MOVED_TO | IN_DELETE | IN_ONLYDIR) >= 0;
    if (watches) changes_ = std::move(changes);
  }
  return changes_.get();
}

void SharedDirectory::take_changes() {
  char events[4096];
  while (changes_ && ::read(changes_.get(), events, sizeof events) > 0) {
  }
}

}  // namespace towpath::sys
