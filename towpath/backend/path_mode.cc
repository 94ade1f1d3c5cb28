#include <cerrno>

#include <fcntl.h>

#include <towpath/backend/path_mode.h>
#include <towpath/core/format.h>
#include <towpath/sys/os_error.h>

namespace towpath::backend {
namespace {

constexpr std::string_view kForm =
    "ro:PATH or rw,direct,sync,noatime,create:PATH; ./rw:x for a "
    "path that begins like that";

bool* option_of(PathMode& mode, std::string_view word) noexcept {
  if (word == "direct") return &mode.direct;
  if (word == "sync") return &mode.sync;
  if (word == "noatime") return &mode.noatime;
  if (word == "create") return &mode.create;
  return nullptr;
}

Status refuse(std::string_view text, std::string_view why) {
  return error(Code::invalid_argument, cat("'", printable(text, 256), "': ", why),
               cat("write ", kForm));
}

int flags_of(const PathMode& mode) noexcept {
  return (mode.writable ? O_RDWR : O_RDONLY) | (mode.direct ? O_DIRECT : 0) |
         (mode.sync ? O_DSYNC : 0) | (mode.noatime ? O_NOATIME : 0) | (mode.create ? O_CREAT : 0);
}

/// O_NONBLOCK only for the opening: who opens a pipe must not wait for its other end.
sys::Fd open_at_once(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0600);
  } while (fd < 0 && errno == EINTR);
  if (fd >= 0) (void)::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return sys::Fd(fd);
}

Status cannot_open(const std::string& path, int errno_value) {
  return sys::os_error(errno_value, cat("cannot open '", printable(path, 256), "'"));
}

}  // namespace

Result<std::optional<PathMode>> PathMode::parse(std::string_view text) {
  const std::string_view access = text.substr(0, 2);
  const bool begins =
      (access == "ro" || access == "rw") && text.size() > 2 && (text[2] == ':' || text[2] == ',');
  if (!begins) return std::optional<PathMode>();
  PathMode mode{.writable = access == "rw"};
  std::string_view rest = text.substr(2);
  while (rest.starts_with(',')) {
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find_first_of(",:"));
    bool* option = option_of(mode, word);
    if (option == nullptr) return refuse(text, cat("no option '", printable(word), "'"));
    *option = true;
    rest.remove_prefix(word.size());
  }
  if (!rest.starts_with(':') || rest.size() == 1) return refuse(text, "no path");
  if (mode.create && !mode.writable) return refuse(text, "create without rw");
  mode.path = rest.substr(1);
  if (mode.path.find('\0') != std::string::npos) return refuse(text, "a path ends at its first 0");
  return std::optional(std::move(mode));
}

Result<OpenedPath> open_path(const PathMode& mode) {
  OpenedPath opened{.fd = open_at_once(mode.path, flags_of(mode))};
  if (!opened.fd && errno == EINVAL && mode.direct) {
    opened.direct_refusal = cat("open(O_DIRECT): ", sys::errno_text(EINVAL));
    opened.fd = open_at_once(mode.path, flags_of(mode) & ~O_DIRECT);
  }
  if (!opened.fd) return cannot_open(mode.path, errno);
  return opened;
}

Result<OpenedPath> open_plain_path(const std::string& path) {
  if (path.find('\0') != std::string::npos) return refuse(path, "a path ends at its first 0");
  OpenedPath opened{.fd = open_at_once(path, O_RDWR)};
  if (!opened.fd && (errno == EACCES || errno == EROFS || errno == EPERM))
    opened.fd = open_at_once(path, O_RDONLY);
  if (!opened.fd) return cannot_open(path, errno);
  return opened;
}

}  // namespace towpath::backend
