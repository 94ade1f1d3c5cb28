#include <towpath/backends/posix/options.h>
#include <towpath/core/format.h>

namespace towpath::backends::posix {
namespace {

struct Bounds {
  std::uint64_t low;
  std::uint64_t high;
};
constexpr Bounds kDepth{1, 4096};
constexpr Bounds kChunk{4096, 1ULL << 30U};  // the kernel moves less than 2 GiB at a time
constexpr std::uint64_t kChunkUnit = 4096;

const std::string* find(const backend::Params& params, const std::string& name) {
  const auto found = params.find(name);
  return found == params.end() ? nullptr : &found->second;
}

Status refuse(const std::string& name, const std::string& value, std::string hint) {
  return error(Code::invalid_argument, cat("posix: ", name, "='", printable(value), "'"),
               std::move(hint));
}

Status read_number(const backend::Params& params, const std::string& name, Bounds bounds,
                   std::uint64_t& into) {
  const std::string* text = find(params, name);
  if (text == nullptr) return {};
  const auto value = parse_bytes(*text);
  if (!value.ok() || *value < bounds.low || *value > bounds.high)
    return refuse(name, *text, cat("use ", bounds.low, " to ", bounds.high));
  into = *value;
  return {};
}

}  // namespace

Result<BackendOptions> BackendOptions::parse(const backend::Params& params) {
  BackendOptions options;
  std::uint64_t depth = options.depth;
  TOWPATH_TRY(read_number(params, "depth", kDepth, depth));
  options.depth = static_cast<std::uint32_t>(depth);
  TOWPATH_TRY(read_number(params, "chunk_bytes", kChunk, options.chunk_bytes));
  options.chunk_bytes -= options.chunk_bytes % kChunkUnit;
  if (const std::string* engine = find(params, "engine")) {
    if (*engine == "io_uring")
      options.engine = run::FileEngineKind::io_uring;
    else if (*engine == "threads")
      options.engine = run::FileEngineKind::threads;
    else if (*engine != "auto")
      return refuse("engine", *engine, "use auto, io_uring or threads");
  }
  if (const std::string* buffers = find(params, "registered_buffers")) {
    if (*buffers == "on")
      options.buffers = BufferUse::on;
    else if (*buffers == "off")
      options.buffers = BufferUse::off;
    else if (*buffers != "auto")
      return refuse("registered_buffers", *buffers, "use auto, on or off");
  }
  return options;
}

std::vector<backend::ParamInfo> BackendOptions::describe() {
  return {
      {"engine", "auto", "auto, io_uring, or threads (where io_uring is forbidden)"},
      {"depth", "64", "I/Os at a time, 1 to 4096; more wait"},
      {"chunk_bytes", "1M", "largest single I/O, 4096 to 1G, rounded down to a multiple of 4096"},
      {"registered_buffers", "auto",
       "auto: pin memory with io_uring where memlock allows, use that for O_DIRECT files; on: for "
       "all files; off"},
  };
}

}  // namespace towpath::backends::posix
