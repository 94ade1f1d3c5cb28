#include <string_view>

#include <towpath/core/format.h>
#include <towpath/sys/open_rules.h>

namespace towpath::sys::internal {

std::string quoted_path(const std::string& path) { return cat("'", printable(path, 256), "'"); }

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status check_path(const std::string& path) {
  if (!path.empty() && path.find('\0') == std::string::npos) return {};
  return error(Code::invalid_argument, cat(quoted_path(path), " is not a path"));
}

Status check_open(const std::string& path, const OpenFile& options) {
  TOWPATH_TRY(check_path(path));
  if ((options.create || options.truncate) && !options.writable)
    return error(Code::invalid_argument,
                 cat("cannot create or truncate ", quoted_path(path), " opened for reading only"),
                 "set writable");
  if (options.directory && (options.writable || options.direct || options.plain))
    return error(Code::invalid_argument,
                 cat("the directory ", quoted_path(path), " is opened as a file"),
                 "set nothing else");
  if (options.exclusive && !options.create)
    return error(Code::invalid_argument, cat("exclusive without create for ", quoted_path(path)),
                 "set create");
  return {};
}

std::string temporary_base(const std::string& where) {
  constexpr std::string_view kLetters = "XXXXXX";
  const bool is_template = where.ends_with(kLetters);
  return is_template ? where.substr(0, where.size() - kLetters.size()) : where + "/towpath-";
}

}  // namespace towpath::sys::internal
