#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <towpath/sys/os_error.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::sys {

Result<TemporaryDirectory> TemporaryDirectory::create(const std::string& parent) {
  std::string path = parent + "/towpath-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    return os_error(errno, cat("cannot make a directory in '", printable(parent, 256), "'"));
  return TemporaryDirectory(std::move(path));
}

TemporaryDirectory::TemporaryDirectory(std::string path) : path_(std::move(path)) {}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;  // what cannot be removed stays; a destructor has nobody to report
  if (!path_.empty() && process_.is_this()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace towpath::sys
