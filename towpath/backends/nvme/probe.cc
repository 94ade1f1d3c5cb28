#include <charconv>
#include <filesystem>
#include <system_error>

#include <unistd.h>

#include <towpath/backends/nvme/probe.h>
#include <towpath/core/format.h>
#include <towpath/sys/kernel_config.h>
#include <towpath/sys/machine.h>
#include <towpath/sys/text_file.h>
#include <towpath/sys/uring.h>

namespace towpath::backends::nvme {
namespace {

constexpr unsigned kAdmin = 21;  // CAP_SYS_ADMIN

Finding judged(Finding finding, Verdict verdict, std::string reason, std::string hint = {}) {
  finding.verdict = verdict;
  finding.reason = std::move(reason);
  finding.hint = std::move(hint);
  return finding;
}

/// Whether commands are let through whatever the file's mode says.
bool is_admin(const SystemRoot& root) {
  const auto status = sys::read_text_file(cat(root.proc, "/self/status"));
  const auto line = status.ok() ? sys::line_after(*status, "CapEff:") : std::nullopt;
  if (!line) return false;
  const std::string_view digits = sys::trimmed(*line);
  std::uint64_t capabilities = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), capabilities, 16);
  return (capabilities >> kAdmin & 1U) != 0;
}

bool has_peer_memory(const SystemRoot& root) {
  std::error_code failed;
  const std::filesystem::directory_iterator devices(cat(root.sys, "/bus/pci/devices"), failed);
  if (failed) return false;
  for (const auto& device : devices) {
    if (std::filesystem::exists(device.path() / "p2pmem", failed)) return true;
  }
  return false;
}

Finding probe_namespace(const SystemRoot& root, const std::string& name) {
  const std::string path = cat(root.dev, "/", name);
  Finding finding{.question = cat("Can ", path, " be read and written to by commands?"),
                  .signal = "the file's mode, CAP_SYS_ADMIN, partitions, holders, mounts",
                  .source = path};
  const Status unused = check_unused(root, block_name_of(name));
  if (!unused.ok())
    return judged(std::move(finding), Verdict::no, std::string(unused.message()),
                  std::string(unused.hint()));
  if (::access(path.c_str(), R_OK) != 0)
    return judged(std::move(finding), Verdict::no, "this user may not open it",
                  "run as root, or give this user the device's file");
  const bool writable = ::access(path.c_str(), W_OK) == 0;
  if (!writable)
    return judged(std::move(finding), Verdict::degraded, "it can be read only: so says its mode",
                  "give this user the right to write to the device's file");
  if (kernel_zone_bytes(root, block_name_of(name)) != 0)
    return judged(std::move(finding), Verdict::degraded,
                  "it can be read only: it is zoned, and takes writes in the order of its zones",
                  "write to an ordinary namespace");
  if (!is_admin(root))
    return judged(std::move(finding), Verdict::degraded,
                  "without CAP_SYS_ADMIN the kernel lets through what the drive calls harmless",
                  "if commands are refused: run with CAP_SYS_ADMIN");
  return judged(std::move(finding), Verdict::yes,
                "it is free; writing needs the word of its region (rw:) besides");
}

}  // namespace

Finding probe_drives(const SystemRoot& root) {
  const std::string source = cat(root.proc, "/sys/kernel/osrelease");
  Finding finding{.question = "Does the kernel take NVMe commands, and is there a drive?",
                  .signal = "its release, and /sys/class/nvme-generic",
                  .source = source};
  const auto text = sys::read_text_file(source);
  if (!text.ok())
    return judged(std::move(finding), Verdict::unknown, std::string(text.status().message()));
  const auto release = sys::parse_release(*text);
  const std::string linux = cat("Linux ", printable(sys::trimmed(*text)));
  if (!release)
    return judged(std::move(finding), Verdict::unknown, cat(linux, " is not understood"));
  if (release->major < 6)
    return judged(std::move(finding), Verdict::no, cat(linux, " is older than 6.0"),
                  "use Linux 6.0 or newer, or posix with a file");
  const std::size_t count = generic_names(root).size();
  if (count == 0)
    return judged(std::move(finding), Verdict::no, cat(linux, " shows no NVMe namespace"),
                  "give the machine an NVMe drive (modprobe nvme), or use posix with a file");
  return judged(std::move(finding), Verdict::yes, cat(linux, ", ", count, " namespaces"));
}

std::vector<Finding> probe_namespaces(const SystemRoot& root) {
  std::vector<Finding> findings;
  for (const std::string& name : generic_names(root))
    findings.push_back(probe_namespace(root, name));
  return findings;
}

Finding probe_peer_memory(const SystemRoot& root) {
  Finding finding{.question = "Can drives read and write the memory of other devices?",
                  .signal = "CONFIG_PCI_P2PDMA, and devices that offer memory (p2pmem)",
                  .source = cat(root.sys, "/bus/pci/devices")};
  const auto multipath =
      sys::read_text_file(cat(root.sys, "/module/nvme_core/parameters/multipath"));
  const bool many_ways = multipath.ok() && sys::trimmed(*multipath) == "Y";
  if (has_peer_memory(root))
    return judged(std::move(finding), many_ways ? Verdict::degraded : Verdict::yes,
                  many_ways ? "a device offers memory; with multipath O_DIRECT does not reach it"
                            : "a device offers memory; whether a drive reaches it depends on the "
                              "PCIe bridges between (error EREMOTEIO: it does not)",
                  many_ways ? "nvme_core.multipath=N" : "");
  const sys::KernelAnswer built = sys::built_with({"CONFIG_PCI_P2PDMA", "p2pdma_pgmap_ops"},
                                                  {.proc = root.proc, .sys = root.sys}, root.boot);
  if (!built.built_in)
    return judged(std::move(finding), Verdict::unknown,
                  cat("no device offers memory, and the kernel does not report: ", built.source));
  finding.source = built.source;
  if (*built.built_in)
    return judged(std::move(finding), Verdict::no, "the kernel could, but no device offers memory",
                  "a drive with a controller memory buffer, or a GPU driver that maps its memory");
  return judged(std::move(finding), Verdict::no, "the kernel was built without CONFIG_PCI_P2PDMA",
                "use a kernel with it (none of Debian 12's has it); bytes go through host memory");
}

std::vector<Finding> probe(const SystemRoot& root) {
  std::vector<Finding> findings = sys::probe_ring();
  findings.push_back(probe_drives(root));
  for (Finding& finding : probe_namespaces(root)) findings.push_back(std::move(finding));
  findings.push_back(probe_peer_memory(root));
  return findings;
}

}  // namespace towpath::backends::nvme
