#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/core/words.h>
#include <towpath/net/ucx/ucx_devices.h>

namespace towpath::net {
namespace {

constexpr std::string_view kSeparators = ", ";

std::string joined(std::span<const std::string> names) {
  std::string all;
  for (const std::string& name : names) all += cat(all.empty() ? "" : ", ", printable(name));
  return all.empty() ? "none" : all;
}

Result<std::string> choose(std::string_view name, std::span<const std::string> known) {
  for (const std::string& one : {std::string(name), cat(name, ":1")}) {
    if (std::ranges::find(known, one) != known.end()) return one;
  }
  return error(Code::invalid_argument,
               cat("UCX has no network device ", printable(name), "; it knows ", joined(known)),
               "name one of those; transports= and UCX_TLS leave out devices, too");
}

}  // namespace

std::vector<std::string> devices_in(std::string_view context_info) {
  std::vector<std::string> devices;
  while (!context_info.empty()) {
    std::string_view line = next_word(context_info, "\n");
    std::string_view rest = line;
    if (next_word(rest, "# ") != "resource") continue;
    const std::string_view resource = line.substr(line.find_last_of(' ') + 1);
    const std::size_t slash = resource.find('/');
    if (slash == std::string_view::npos) continue;
    std::string device(resource.substr(slash + 1));
    if (std::ranges::find(devices, device) == devices.end()) devices.push_back(std::move(device));
  }
  return devices;
}

Result<std::string> choose_devices(std::string_view asked, std::span<const std::string> known) {
  const bool others = asked.starts_with('^');
  std::string_view rest = asked.substr(others ? 1 : 0);
  std::string chosen;
  for (std::string_view name = next_word(rest, kSeparators); !name.empty();
       name = next_word(rest, kSeparators)) {
    if (name == "all") return std::string(name);
    TOWPATH_TRY(const std::string device, choose(name, known));
    chosen += cat(chosen.empty() ? "" : ",", device);
  }
  return others ? cat("^", chosen) : chosen;
}

}  // namespace towpath::net
