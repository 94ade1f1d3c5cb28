#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/private_file.h>
#include <towpath/sys/random.h>

namespace towpath::sys {
namespace {

constexpr mode_t kOpenToOthers = 077;

struct Place {
  std::string directory;
  std::string name;
  std::string text() const { return printable(cat(directory, "/", name), 256); }
};

Status check_owner(const struct stat& about, const std::string& what) {
  if (about.st_uid != ::geteuid())
    return error(Code::denied,
                 cat(what, " belongs to user ", about.st_uid, ", and this is user ", ::geteuid()),
                 "another user made it: remove it, or name a token file");
  if ((about.st_mode & kOpenToOthers) == 0) return {};
  return error(Code::denied, cat(what, " is open to other users"),
               "take their permissions away (chmod go=), and let no other use its secret");
}

Result<Fd> open_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return os_error(errno, cat("cannot make the directory ", printable(path, 256)));
  Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  if (!directory || ::fstat(directory.get(), &about) != 0)
    return error(Code::denied, cat("cannot open the directory ", printable(path, 256)),
                 "another user may have put something else there: name a token file")
        .because(os_error(errno, "open"));
  TOWPATH_TRY(check_owner(about, printable(path, 256)));
  return directory;
}

// Nothing: there is no such file.
Result<std::string> read_private(const Fd& directory, const Place& place) {
  // A link is not followed, a pipe is not waited for.
  const Fd file(::openat(directory.get(), place.name.c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::string();
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0)
    return os_error(errno, cat("cannot open ", place.text()));
  if (!S_ISREG(about.st_mode))
    return error(Code::corrupt, cat(place.text(), " is no plain file"), "remove it");
  TOWPATH_TRY(check_owner(about, place.text()));
  std::string text(kMaxPrivateFile + 1, '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return os_error(errno, cat("cannot read ", place.text()));
  if (size == 0 || static_cast<std::size_t>(size) > kMaxPrivateFile)
    return error(Code::corrupt, cat(place.text(), " has ", size == 0 ? "no" : "too many", " bytes"),
                 "remove it");
  text.resize(static_cast<std::size_t>(size));
  return text;
}

// Whole under another name first: link(2) gives it the real one unless another was faster.
Status make_private(const Fd& directory, const Place& place, std::string_view content) {
  const std::string fresh = cat(".", ::getpid(), "-", hex(random_u64()));
  const Fd file(::openat(directory.get(), fresh.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return os_error(errno, cat("cannot make ", place.text()));
  const ssize_t wrote = ::write(file.get(), content.data(), content.size());
  int wrong = wrote < 0 ? errno : 0;
  if (wrong == 0 && static_cast<std::size_t>(wrote) != content.size()) wrong = ENOSPC;
  if (wrong == 0 &&
      ::linkat(directory.get(), fresh.c_str(), directory.get(), place.name.c_str(), 0) != 0 &&
      errno != EEXIST)
    wrong = errno;
  ::unlinkat(directory.get(), fresh.c_str(), 0);
  return wrong == 0 ? Status() : os_error(wrong, cat("cannot make ", place.text()));
}

}  // namespace

Result<std::string> find_or_make_private_file(const std::string& path, std::string_view fresh) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == path.size())
    return error(Code::invalid_argument, cat("'", printable(path, 256), "' names no file"),
                 "give a directory of its own, and a name in it");
  const Place place{path.substr(0, slash), path.substr(slash + 1)};
  TOWPATH_TRY(const Fd directory, open_directory(place.directory));
  TOWPATH_TRY(std::string found, read_private(directory, place));
  if (!found.empty()) return found;
  TOWPATH_TRY(make_private(directory, place, fresh));
  return read_private(directory, place);
}

}  // namespace towpath::sys
