#include <algorithm>
#include <optional>

#include <towpath/sys/direct_storage.h>
#include <towpath/sys/judged.h>
#include <towpath/sys/nvidia_gpus.h>
#include <towpath/sys/pci.h>

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
          .hint = "use xfs, or ext4 with data=ordered, on an NVMe drive"};
}

/// ".../nvme/nvme0/nvme0n1/nvme0n1p1" -> "nvme0n1p1".
std::string_view last_part(std::string_view path) {
  return path.substr(std::min(path.rfind('/') + 1, path.size()));
}

constexpr const char* kRightOnDrive =
    "use a file system right on an NVMe drive (no RAID, LVM, encryption, multipath)";

Judged judge_drive(const std::string& device) {
  if (device.empty())
    return {.verdict = Verdict::no,
            .reason = "no block device carries it",
            .hint = "use a directory on an NVMe drive"};
  const std::string_view name = last_part(device);
  const bool stands_for_others = device.find("/virtual/") != std::string::npos;
  if (name.starts_with("nvme") && !stands_for_others)
    return {.verdict = Verdict::yes, .reason = cat(name, ", an NVMe drive on the PCI bus")};
  const char* what = " is no NVMe drive";
  if (device.find("/nvme-fabrics/") != std::string::npos) {
    what = ": an NVMe drive over a network";
  } else if (name.starts_with("nvme")) {
    what = ": an NVMe drive by several paths (multipath)";
  } else if (name.starts_with("md") || name.starts_with("dm-")) {
    what = ": a device made of others";
  }
  return {.verdict = Verdict::no, .reason = cat(name, what), .hint = kRightOnDrive};
}

/// Bytes between the two pass what stands between them; P2PDMA takes a processor's own bridges only
/// where the kernel trusts them (drivers/pci/p2pdma.c).
Judged judge_distance(const std::string& gpu, const std::string& drive) {
  if (share_switch(gpu, drive))
    return {.verdict = Verdict::yes, .reason = "they are below one PCI switch"};
  const bool root = share_root(gpu, drive);
  return {.verdict = Verdict::degraded,
          .reason = root ? "they meet at the processor's root"
                         : "they are below different roots of the processor, or processors",
          .hint =
              "use a drive below the GPU's switch; without, the kernel may refuse "
              "(EREMOTEIO), or the processors' own bus carries the bytes"};
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
  const std::string under = real_path(drive.source);
  std::vector<Finding> findings{judge(std::move(system), std::move(judged)),
                                judge(std::move(drive), judge_drive(under))};
  if (findings.back().verdict != Verdict::yes) return findings;
  for (const std::string& gpu : nvidia_gpus(root.sys))
    findings.push_back(judge({.question = cat("Is ", named, " near GPU ", last_part(gpu), "?"),
                              .signal = "the PCI bridges above both",
                              .source = under},
                             judge_distance(real_path(gpu), under)));
  return findings;
}

}  // namespace towpath::sys
