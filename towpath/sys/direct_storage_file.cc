#include <algorithm>
#include <array>
#include <optional>

#include <unistd.h>

#include <towpath/sys/direct_storage.h>
#include <towpath/sys/judged.h>

namespace towpath::sys {
namespace {

struct Mount {
  std::string type;
  std::string options;
};

/// The last word of mountinfo on a device: "36 35 259:1 / /mnt rw shared:1 - ext4 /dev/x
/// rw,data=..."
std::optional<Mount> mount_of(std::string_view mountinfo, std::string_view device) {
  std::optional<Mount> found;
  while (!mountinfo.empty()) {
    const std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
    mountinfo.remove_prefix(std::min(line.size() + 1, mountinfo.size()));
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos || line.find(cat(" ", device, " ")) > dash) continue;
    const std::string_view rest = line.substr(dash + 3);
    const std::size_t type_end = rest.find(' ');
    found = {.type = std::string(rest.substr(0, type_end)),
             .options = std::string(rest.substr(std::min(rest.rfind(' ') + 1, rest.size())))};
  }
  return found;
}

Judged judge_mount(const std::optional<Mount>& mount) {
  if (!mount) return {.reason = "the mount is not in mountinfo"};
  if (mount->type == "xfs") return {.verdict = Verdict::yes, .reason = "xfs"};
  const bool ext4 = mount->type == "ext4";
  const bool ordered = mount->options.find("data=journal") == std::string::npos &&
                       mount->options.find("data=writeback") == std::string::npos;
  if (ext4 && ordered) return {.verdict = Verdict::yes, .reason = "ext4, data in order"};
  return {.verdict = Verdict::no,
          .reason = ext4 ? cat("ext4 with ", mount->options) : cat("a ", printable(mount->type)),
          .remedy = "use xfs, or ext4 with data=ordered, on an NVMe drive"};
}

std::string link_target(const std::string& path) {
  std::array<char, 4096> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string();
}

/// ".../nvme/nvme0/nvme0n1/nvme0n1p1" -> "nvme0n1p1".
std::string_view last_part(std::string_view path) {
  return path.substr(std::min(path.rfind('/') + 1, path.size()));
}

Judged judge_drive(const std::string& sysfs_link) {
  if (sysfs_link.empty())
    return {.verdict = Verdict::no,
            .reason = "no block device carries it",
            .remedy = "use a directory on an NVMe drive"};
  const std::string_view name = last_part(sysfs_link);
  if (name.starts_with("nvme") && sysfs_link.find("/virtual/") == std::string::npos)
    return {.verdict = Verdict::yes, .reason = cat(name, ", an NVMe drive on the PCI bus")};
  const bool stacked = name.starts_with("md") || name.starts_with("dm-");
  return {
      .verdict = Verdict::no,
      .reason = stacked ? cat(name, ": a device made of others") : cat(name, " is no NVMe drive"),
      .remedy = "use a file system right on an NVMe drive (no RAID, LVM, encryption, multipath)"};
}

}  // namespace

std::vector<Finding> probe_storage_device(const std::string& directory, const std::string& device,
                                          const MachineRoot& root) {
  const std::string named = printable(directory, 256);
  Finding system{.question = cat("Is the file system of ", named, " one that can go direct?"),
                 .signal = cat("the mount of device ", device),
                 .source = root.proc + "/self/mountinfo"};
  Finding drive{.question = cat("Does ", named, " lie right on an NVMe drive?"),
                .signal = "the block device under it",
                .source = cat(root.sys, "/dev/block/", device)};
  const auto mountinfo = read_text_file(system.source, std::size_t{1} << 20U);
  Judged judged = mountinfo.ok() ? judge_mount(mount_of(*mountinfo, device))
                                 : Judged{.reason = std::string(mountinfo.status().message())};
  const std::string link = link_target(drive.source);
  return {judge(std::move(system), std::move(judged)), judge(std::move(drive), judge_drive(link))};
}

}  // namespace towpath::sys
