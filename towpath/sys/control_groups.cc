#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/sys/control_groups.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60U;  // version 1 writes some huge number

/// The groups of a controller, this process's first, and which files they have.
struct Groups {
  std::vector<std::string> directories;
  bool is_version_2 = false;
};

bool names(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const std::size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == wanted) return true;
    controllers.remove_prefix(comma == std::string_view::npos ? controllers.size() : comma + 1);
  }
  return false;
}

/// From "/a/b" to the root: "MOUNT/a/b", "MOUNT/a", "MOUNT". A path above what this process sees
/// ("/../.."), and what is no path, is the root's.
std::vector<std::string> upwards(const std::string& mount, std::string_view path) {
  std::vector<std::string> directories;
  if (!path.starts_with('/') || path.find("..") != std::string_view::npos) path = {};
  for (; path.size() > 1; path = path.substr(0, path.rfind('/')))
    directories.push_back(cat(mount, path));
  directories.push_back(mount);
  return directories;
}

/// Lines of /proc/self/cgroup: "4:memory:/path" of version 1, "0::/path" of version 2.
Result<Groups> groups_of(const MachineRoot& root, std::string_view controller) {
  const std::string mount = root.sys + "/fs/cgroup";
  TOWPATH_TRY(const std::string text, read_text_file(root.proc + "/self/cgroup"));
  Groups groups;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos)
      return error(Code::corrupt, cat("'", printable(line), "' is no line about a control group"));
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (names(controllers, controller))
      groups = {upwards(cat(mount, "/", controller), line.substr(second + 1)), false};
    else if (controllers.empty() && groups.directories.empty())
      groups = {upwards(mount, line.substr(second + 1)), true};
  }
  if (groups.directories.empty() ||
      read_text_file(groups.directories.back() + "/cgroup.procs").code() == Code::not_found)
    return error(Code::not_found, cat("no control groups for ", controller, " below ", mount),
                 "mount them there, as systemd and containers do");
  return groups;
}

/// Nothing: there is no such file, or no number in it ("max", "-1").
std::optional<std::uint64_t> number_in(const std::string& path) {
  const auto text = read_text_file(path);
  return text.ok() ? parse_number(*text) : std::nullopt;
}

/// Version 2 has "150000 100000" in one file, so much time in each period, or "max 100000": no
/// limit.
std::optional<double> share_of(const std::string& group, bool is_version_2) {
  std::optional<std::uint64_t> quota, period;
  if (is_version_2) {
    const auto text = read_text_file(group + "/cpu.max");
    const std::string_view both = text.ok() ? trimmed(*text) : std::string_view();
    const std::size_t space = std::min(both.find(' '), both.size());
    quota = parse_number(both.substr(0, space));
    period = parse_number(both.substr(space));
  } else {
    quota = number_in(group + "/cpu.cfs_quota_us");
    period = number_in(group + "/cpu.cfs_period_us");
  }
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

Result<std::optional<MemoryLimit>> memory_limit(const MachineRoot& root) {
  TOWPATH_TRY(const Groups groups, groups_of(root, "memory"));
  const auto [most, used] = groups.is_version_2
                                ? std::array{"/memory.max", "/memory.current"}
                                : std::array{"/memory.limit_in_bytes", "/memory.usage_in_bytes"};
  std::optional<MemoryLimit> tightest;
  for (const std::string& group : groups.directories) {
    const auto bytes = number_in(group + most);
    if (!bytes || *bytes >= kNoLimit) continue;
    const MemoryLimit limit{group, *bytes, number_in(group + used).value_or(0)};
    if (!tightest || limit.room() < tightest->room()) tightest = limit;
  }
  return tightest;
}

Result<std::optional<ProcessorLimit>> processor_limit(const MachineRoot& root) {
  TOWPATH_TRY(const Groups groups, groups_of(root, "cpu"));
  std::optional<ProcessorLimit> tightest;
  for (const std::string& group : groups.directories) {
    const auto processors = share_of(group, groups.is_version_2);
    if (processors && (!tightest || *processors < tightest->processors))
      tightest = ProcessorLimit{group, *processors};
  }
  return tightest;
}

}  // namespace towpath::sys
