#include <algorithm>
#include <optional>

#include <towpath/backends/shm/options.h>
#include <towpath/core/format.h>
#include <towpath/sys/processors.h>
#include <towpath/sys/text_file.h>

namespace towpath::backends::shm {
namespace {

constexpr std::size_t kUsualThreads = 4;
constexpr std::size_t kMostThreads = 16;

Status refuse(const std::string& name, const std::string& value, std::string hint) {
  return error(Code::invalid_argument, cat("shm: ", name, "='", printable(value), "'"),
               std::move(hint));
}

/// As many as may run at the same time, but no more than a copy is worth.
std::optional<std::uint64_t> usual_threads() {
  const auto processors = sys::allowed_processors();
  return processors.ok() ? std::clamp<std::uint64_t>(processors->size(), 1, kUsualThreads) : 1;
}

}  // namespace

Result<BackendOptions> BackendOptions::parse(const backend::Params& params) {
  BackendOptions options;
  if (const auto paths = params.find("paths"); paths != params.end() && paths->second != "auto") {
    options.mapped = paths->second == "mapped";
    options.process = paths->second == "process_vm";
    if (!options.mapped && !options.process)
      return refuse("paths", paths->second, "use auto, mapped or process_vm");
  }
  if (const auto threads = params.find("copy_threads"); threads != params.end()) {
    const auto number =
        threads->second == "auto" ? usual_threads() : sys::parse_number(threads->second);
    if (!number || *number < 1 || *number > kMostThreads)
      return refuse("copy_threads", threads->second, cat("use auto, or 1 to ", kMostThreads));
    options.copy_threads = *number;
  }
  return options;
}

std::vector<backend::ParamInfo> BackendOptions::describe() {
  return {
      {.name = "paths",
       .default_value = "auto",
       .meaning = "how bytes may go: auto, mapped (shared memory only), process_vm"},
      {.name = "copy_threads",
       .default_value = "1",
       .meaning = "threads that copy by process_vm, 1 to 16; auto: one a processor, 4 at most"}};
}

}  // namespace towpath::backends::shm
