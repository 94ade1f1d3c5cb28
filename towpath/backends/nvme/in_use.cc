#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include <sys/sysmacros.h>

#include <towpath/backends/nvme/in_use.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/sys/text_file.h>

namespace towpath::backends::nvme {
namespace {

constexpr std::size_t kMaxTable = 1U << 20U;  // of mounts
constexpr std::uint64_t kPage = 4096;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed))
    names.push_back(entry->path().filename());
  std::ranges::sort(names);
  return names;
}

bool exists(const std::string& path) {
  std::error_code failed;
  return std::filesystem::exists(path, failed);
}

/// The next word of `text`, which it is taken from.
std::string_view take_word(std::string_view& text) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(" \t"));
  text.remove_prefix(word.size());
  return word;
}

template <typename Visit>
void for_lines(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

Status refuse(const std::string& name, const std::string& because, std::string hint) {
  return error(Code::denied, cat(name, " is in use: ", because), std::move(hint));
}

Status check_partitions(const std::string& folder, const std::string& name) {
  for (const std::string& entry : names_in(folder)) {
    if (exists(cat(folder, "/", entry, "/partition")))
      return refuse(name, cat("it has the partition ", entry),
                    "name a namespace without partitions, or remove them (wipefs)");
  }
  return {};
}

Status check_holders(const std::string& folder, const std::string& name) {
  const auto holders = names_in(cat(folder, "/holders"));
  if (holders.empty()) return {};
  return refuse(name, cat(holders.front(), " is built on it"),
                "name a namespace that belongs to no volume group, array or mapping");
}

/// `36 35 259:0 / /mnt rw,noatime shared:1 - ext4 /dev/nvme0n1 rw`
struct Mount {
  std::string_view number, target, source;
};
Mount mount_of(std::string_view line) noexcept {
  Mount mount;
  const std::size_t dash = line.find(" - ");
  std::string_view rest = dash == std::string_view::npos ? "" : line.substr(dash + 3);
  take_word(rest);
  mount.source = take_word(rest);
  take_word(line);
  take_word(line);
  mount.number = take_word(line);
  take_word(line);
  mount.target = take_word(line);
  return mount;
}

Status check_mounts(const SystemRoot& root, const std::string& folder, const std::string& name) {
  TOWPATH_TRY(const std::string number, sys::read_text_file(cat(folder, "/dev")));
  TOWPATH_TRY(const std::string mounts,
              sys::read_text_file(cat(root.proc, "/self/mountinfo"), kMaxTable));
  std::string where;
  for_lines(mounts, [&](std::string_view line) {
    const Mount mount = mount_of(line);
    if (mount.number == sys::trimmed(number) || mount.source == cat("/dev/", name))
      where = mount.target;
  });
  if (where.empty()) return {};
  return refuse(name, cat("it is mounted at ", printable(where, 256)), "unmount it");
}

Status check_swap(const SystemRoot& root, const std::string& name) {
  if (!exists(cat(root.proc, "/swaps"))) return {};  // a kernel without swap
  TOWPATH_TRY(const std::string swaps, sys::read_text_file(cat(root.proc, "/swaps"), kMaxTable));
  if (!sys::line_after(swaps, cat("/dev/", name, " "))) return {};
  return refuse(name, "it is swapped to", "swapoff it");
}

Status check_all(const SystemRoot& root, const std::string& folder, const std::string& name) {
  TOWPATH_TRY(check_partitions(folder, name));
  TOWPATH_TRY(check_holders(folder, name));
  TOWPATH_TRY(check_mounts(root, folder, name));
  return check_swap(root, name);
}

std::uint64_t queue_number(const SystemRoot& root, const std::string& name, const char* what) {
  const auto text = sys::read_text_file(cat(root.sys, "/block/", name, "/queue/", what));
  const auto number = text.ok() ? sys::parse_number(*text) : std::nullopt;
  return number.value_or(std::numeric_limits<std::uint64_t>::max());
}

}  // namespace

std::vector<std::string> generic_names(const SystemRoot& root) {
  return names_in(cat(root.sys, "/class/nvme-generic"));
}

Result<std::string> generic_name_of(const SystemRoot& root, std::uint64_t device_number) {
  const std::string wanted = cat(gnu_dev_major(device_number), ":", gnu_dev_minor(device_number));
  for (const std::string& name : generic_names(root)) {
    const auto number = sys::read_text_file(cat(root.sys, "/class/nvme-generic/", name, "/dev"));
    if (number.ok() && sys::trimmed(*number) == wanted) return name;
  }
  return error(Code::invalid_argument, cat("device ", wanted, " is no namespace of NVMe"),
               "name the generic device of one: /dev/ng0n1");
}

std::string block_name_of(const std::string& generic_name) {
  return generic_name.starts_with("ng") ? "nvme" + generic_name.substr(2) : generic_name;
}

Status check_unused(const SystemRoot& root, const std::string& block_name) {
  const std::string folder = cat(root.sys, "/block/", block_name);
  if (!exists(folder))
    return error(Code::unavailable,
                 cat("the kernel shows no block device ", block_name,
                     ", so it cannot be seen whether the namespace is in use"),
                 "format the namespace with blocks that Linux knows, without metadata");
  Status found = check_all(root, folder, block_name);
  if (found.ok() || found.code() == Code::denied) return found;
  return error(Code::unavailable, cat("it cannot be seen whether ", block_name, " is in use"))
      .because(std::move(found));
}

std::uint64_t kernel_zone_bytes(const SystemRoot& root, const std::string& block_name) {
  constexpr std::uint64_t kSector = 512;
  const auto zoned = sys::read_text_file(cat(root.sys, "/block/", block_name, "/queue/zoned"));
  if (!zoned.ok() || sys::trimmed(*zoned) != "host-managed") return 0;
  const std::uint64_t sectors = queue_number(root, block_name, "chunk_sectors");
  return checked_multiply(sectors, kSector).value_or(std::numeric_limits<std::uint64_t>::max());
}

std::uint64_t kernel_transfer_limit(const SystemRoot& root, const std::string& block_name) {
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t kibibytes = queue_number(root, block_name, "max_hw_sectors_kb");
  const std::uint64_t segments = queue_number(root, block_name, "max_segments");
  // Pages that lie scattered are a segment each, and unaligned bytes touch one page more.
  const std::uint64_t scattered = segments == kNone || segments < 2
                                      ? kNone
                                      : checked_multiply(segments - 1, kPage).value_or(kNone);
  return std::min(checked_multiply(kibibytes, 1024).value_or(kNone), scattered);
}

}  // namespace towpath::backends::nvme
