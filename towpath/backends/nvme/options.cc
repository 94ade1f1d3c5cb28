#include <towpath/backends/nvme/options.h>
#include <towpath/core/format.h>

namespace towpath::backends::nvme {
namespace {

constexpr std::uint64_t kMaxDepth = 1024;  // of the queues of common drives

Status refuse_value(const std::string& name, const std::string& value, std::string hint) {
  return error(Code::invalid_argument, cat("nvme: ", name, "='", printable(value), "'"),
               std::move(hint));
}

}  // namespace

Result<BackendOptions> BackendOptions::parse(const backend::Params& params) {
  BackendOptions options;
  if (const auto depth = params.find("depth"); depth != params.end()) {
    const auto value = parse_bytes(depth->second);
    if (!value.ok() || *value == 0 || *value > kMaxDepth)
      return refuse_value("depth", depth->second, cat("use 1 to ", kMaxDepth));
    options.depth = static_cast<std::uint32_t>(*value);
  }
  if (const auto durable = params.find("durable"); durable != params.end()) {
    if (durable->second != "on" && durable->second != "off")
      return refuse_value("durable", durable->second, "use on or off");
    options.durable = durable->second == "on";
  }
  return options;
}

std::vector<backend::ParamInfo> BackendOptions::describe() {
  return {{"depth", "64", "commands that are with the drives at a time"},
          {"durable", "off", "on: a write is done when it survives a power failure"}};
}

}  // namespace towpath::backends::nvme
