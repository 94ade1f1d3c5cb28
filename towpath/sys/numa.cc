#include <algorithm>

#include <sched.h>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/sys/numa.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

constexpr std::uint64_t kMostNumber = 65535;  // of processors or nodes; the kernel's bound is below

/// "Node 0 MemTotal:       24684056 kB" -> bytes; 0 when it is not reported.
std::uint64_t memory_of(std::string_view meminfo) {
  const std::size_t key = meminfo.find("MemTotal:");
  if (key == std::string_view::npos) return 0;
  std::string_view rest = meminfo.substr(key + 9);
  rest = trimmed(rest.substr(0, rest.find('\n')));
  if (!rest.ends_with(" kB")) return 0;
  const auto kilobytes = parse_number(rest.substr(0, rest.size() - 3));
  return kilobytes ? checked_multiply(*kilobytes, 1024).value_or(0) : 0;
}

Result<std::vector<unsigned>> read_list(const std::string& path) {
  TOWPATH_TRY(const std::string text, read_text_file(path));
  return parse_cpu_list(text);
}

}  // namespace

Result<std::vector<unsigned>> parse_cpu_list(std::string_view text) {
  std::vector<unsigned> numbers;
  text = trimmed(text);
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view range = text.substr(0, comma);
    const std::size_t dash = range.find('-');
    const auto first = parse_number(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number(range.substr(dash + 1));
    if (!first || !last || *first > *last || *last > kMostNumber)
      return error(Code::corrupt, cat("'", printable(range), "' is no range of processors"));
    for (std::uint64_t i = *first; i <= *last; ++i) numbers.push_back(static_cast<unsigned>(i));
    if (numbers.size() > kMostNumber + 1)
      return error(Code::corrupt, "a list names more processors than there can be");
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

Result<std::vector<NumaNode>> numa_nodes(const std::string& sys) {
  const std::string root = sys + "/devices/system";
  auto ids = read_list(root + "/node/online");
  if (ids.code() == Code::not_found) {
    TOWPATH_TRY(auto cpus, read_list(root + "/cpu/online"));
    return std::vector<NumaNode>{{.id = 0, .cpus = std::move(cpus)}};
  }
  TOWPATH_TRY(ids.status());
  std::vector<NumaNode> nodes;
  for (const unsigned id : *ids) {
    const std::string node = cat(root, "/node/node", id);
    TOWPATH_TRY(auto cpus, read_list(node + "/cpulist"));
    const auto meminfo = read_text_file(node + "/meminfo");
    nodes.push_back({.id = id,
                     .cpus = std::move(cpus),
                     .memory_bytes = meminfo.ok() ? memory_of(*meminfo) : 0});
  }
  return nodes;
}

std::optional<unsigned> numa_node_near_pci(std::string_view address, const std::string& sys) {
  std::string name(address);
  std::ranges::transform(name, name.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'F' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos || name.find('/') != std::string::npos) return std::nullopt;
  // The kernel writes domains with 4 digits at least, some drivers always with 8.
  while (name.size() > 4 && name.find(':') > 4 && name[0] == '0') name.erase(0, 1);
  const auto text = read_text_file(cat(sys, "/bus/pci/devices/", name, "/numa_node"));
  if (!text.ok()) return std::nullopt;
  const auto node = parse_number(*text);  // "-1" is none
  return node && *node <= kMostNumber ? std::optional(static_cast<unsigned>(*node)) : std::nullopt;
}

unsigned current_numa_node() noexcept {
  unsigned cpu = 0, node = 0;
  return ::getcpu(&cpu, &node) == 0 ? node : 0;
}

}  // namespace towpath::sys
