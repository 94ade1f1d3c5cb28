#include "tools/output.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>

namespace towpath::tools {

void Output::Closer::operator()(std::FILE* file) const {
  if (file != stdout) std::fclose(file);
}

namespace {

/// By errno.
Status cannot(const char* what, const std::string& path, const char* hint = "") {
  const std::string place = path == "-" ? "standard output" : printable(path, 256);
  return error(Code::io_error,
               cat("cannot ", what, " ", place, ": ", std::generic_category().message(errno)),
               hint);
}

constexpr const char* kElsewhere = "name a file that may be written, in a directory that is there";

/// Makes an empty file, and removes it. One that has come meanwhile is as good.
bool can_be_made(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return errno == EEXIST;
  ::close(fd);
  ::unlink(path.c_str());
  return true;
}

bool can_be_written(const std::string& path) {
  struct stat there {};
  if (::stat(path.c_str(), &there) != 0) return errno == ENOENT && can_be_made(path);
  // A pipe is not opened only to look: its reader would take that for the end.
  if (!S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode))
    return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

}  // namespace

Status check_directory(const std::string& path, std::string_view flag) {
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) return {};
  return error(Code::not_found, cat("there is no directory ", printable(path, 256)),
               cat("make it, or name another with ", flag));
}

Result<Output> Output::open(const std::string& path) {
  Output out(path == "-" ? stdout : std::fopen(path.c_str(), "wbe"), path);
  if (!out.file_) return cannot("open", path, kElsewhere);
  return out;
}

Status Output::check(const std::string& path) {
  if (path.empty() || path == "-" || can_be_written(path)) return {};
  return cannot("write to", path, kElsewhere);
}

Status Output::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size())
    return cannot("write to", path_);
  return {};
}

Status Output::flush() {
  if (std::fflush(file_.get()) != 0) return cannot("write to", path_);
  return {};
}

Status Output::close() {
  if (std::fflush(file_.get()) != 0) return cannot("write to", path_);
  std::FILE* const file = file_.release();
  if (file != stdout && std::fclose(file) != 0) return cannot("write to", path_);
  return {};
}

bool Output::is_terminal() const { return isatty(fileno(file_.get())) == 1; }

Status print(std::string_view text) {
  TOWPATH_TRY(Output out, Output::open("-"));
  TOWPATH_TRY(out.write(text));
  return out.close();
}

Status write_json(const std::string& path, const nlohmann::ordered_json& value) {
  TOWPATH_TRY(Output out, Output::open(path));
  TOWPATH_TRY(out.write(
      value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"));
  return out.close();
}

}  // namespace towpath::tools
