#include "tools/output.h"

#include <cerrno>
#include <system_error>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <towpath/core/text.h>

namespace towpath::tools {

void Output::Closer::operator()(std::FILE* file) const {
  if (file != stdout) std::fclose(file);
}

Status Output::failure(const char* what) const {
  const std::string place = path_ == "-" ? "standard output" : printable(path_, 256);
  return error(Code::io_error,
               cat("cannot ", what, " ", place, ": ", std::generic_category().message(errno)));
}

Result<Output> Output::open(const std::string& path) {
  Output out(path == "-" ? stdout : std::fopen(path.c_str(), "wbe"), path);
  if (!out.file_) return out.failure("open");
  return out;
}

Status Output::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size())
    return failure("write to");
  return {};
}

Status Output::flush() {
  if (std::fflush(file_.get()) != 0) return failure("write to");
  return {};
}

Status Output::close() {
  if (std::fflush(file_.get()) != 0) return failure("write to");
  std::FILE* const file = file_.release();
  if (file != stdout && std::fclose(file) != 0) return failure("write to");
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
