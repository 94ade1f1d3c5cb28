#include <array>
#include <cerrno>
#include <charconv>
#include <string>

#include <sys/stat.h>

#include <towpath/backend/path_mode.h>
#include <towpath/backends/posix/query.h>
#include <towpath/core/format.h>
#include <towpath/sys/os_error.h>

namespace towpath::backends::posix {
namespace {

std::string octal(std::uint64_t value) {
  std::array<char, 24> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, 8).ptr};
}

std::string seconds(const timespec& time) {
  const std::string nanoseconds = std::to_string(time.tv_nsec);
  return cat(time.tv_sec, ".", std::string(9 - nanoseconds.size(), '0'), nanoseconds);
}

Result<std::optional<backend::Params>> query_file(const RegionDescriptor& what) {
  if (what.kind != MemoryKind::disk) return std::nullopt;
  TOWPATH_TRY(const auto mode, backend::PathMode::parse(what.key));
  const std::string& path = mode.has_value() ? mode->path : what.key;
  const bool by_fd = what.fd >= 0 && !mode.has_value();
  if (!by_fd && (path.empty() || path.find('\0') != std::string::npos)) return std::nullopt;
  struct stat info {};
  const int rc = by_fd ? ::fstat(what.fd, &info) : ::stat(path.c_str(), &info);
  if (rc == 0)
    return backend::Params{{"size", cat(info.st_size)},
                           {"mode", octal(info.st_mode)},
                           {"mtime", seconds(info.st_mtim)}};
  if (errno == ENOENT || errno == ENOTDIR || errno == EBADF) return std::nullopt;
  return sys::os_error(errno, by_fd ? cat("cannot look at descriptor ", what.fd)
                                    : cat("cannot look at '", printable(path, 256), "'"));
}

}  // namespace

Result<std::vector<std::optional<backend::Params>>> query_files(
    std::span<const RegionDescriptor> descriptors) {
  std::vector<std::optional<backend::Params>> answers;
  answers.reserve(descriptors.size());
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    auto answer = query_file(descriptors[i]);
    if (!answer.ok())
      return error(answer.code(), cat("descriptor ", i, " of ", descriptors.size()))
          .because(answer.status());
    answers.push_back(*std::move(answer));
  }
  return answers;
}

}  // namespace towpath::backends::posix
