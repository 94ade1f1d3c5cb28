#include <algorithm>
#include <array>
#include <charconv>

#include <unistd.h>

#include <towpath/sys/direct_storage_parts.h>
#include <towpath/sys/judged.h>
#include <towpath/sys/kernel_config.h>
#include <towpath/sys/nvidia_fs.h>
#include <towpath/sys/nvidia_gpus.h>
#include <towpath/sys/pci.h>

namespace towpath::sys::internal {
namespace {

Finding probe_open_driver(const MachineRoot& root) {
  return ask_text({.question = "Is NVIDIA's driver loaded, and its open kernel module?",
                   .signal = "the line NVRM version",
                   .source = root.proc + "/driver/nvidia/version"},
                  [](std::string_view text) -> Judged {
                    const auto line = line_after(text, "NVRM version:");
                    if (!line) return not_understood(text);
                    const bool open = line->find("Open Kernel Module") != std::string_view::npos;
                    return {.verdict = open ? Verdict::yes : Verdict::degraded,
                            .reason = std::string(trimmed(*line)),
                            .hint = open ? "" : "P2PDMA wants the open module (565 or newer)"};
                  });
}

Judged judge_p2pdma(const DirectStorageOptions& options, std::string_view text) {
  const auto release = parse_release(text);
  if (!release) return not_understood(text);
  const std::string name(trimmed(text));
  if (*release < KernelRelease{6, 2})
    return {.verdict = Verdict::no,
            .reason = cat("Linux ", printable(name), " is older than 6.2"),
            .hint = "use Linux 6.2 or newer, built with CONFIG_PCI_P2PDMA"};
  const KernelAnswer answer =
      built_with({"CONFIG_PCI_P2PDMA", "p2pdma_pgmap_ops"}, options.root, options.boot);
  if (!answer.built_in)
    return {.reason = cat("the kernel does not report: ", answer.source),
            .hint = "run as root, who may look"};
  return {.verdict = *answer.built_in ? Verdict::yes : Verdict::no,
          .reason = cat(*answer.built_in ? "it is in " : "it is not in ", answer.source),
          .hint = *answer.built_in
                      ? ""
                      : "use a kernel with CONFIG_PCI_P2PDMA=y (Debian's have it off)"};
}

Finding probe_p2pdma(const DirectStorageOptions& options) {
  return ask_text({.question = "Can the kernel take drives to a GPU's memory (P2PDMA)?",
                   .signal = "its release, against 6.2, and CONFIG_PCI_P2PDMA",
                   .source = options.root.proc + "/sys/kernel/osrelease"},
                  [&](std::string_view text) { return judge_p2pdma(options, text); });
}

Finding probe_static_bar(const MachineRoot& root) {
  return ask_text({.question = "Does NVIDIA's driver show all of a GPU's memory to drives?",
                   .signal = "RegistryDwords, RMForceStaticBar1=1",
                   .source = root.proc + "/driver/nvidia/params"},
                  [](std::string_view text) -> Judged {
                    const bool set = text.find("RMForceStaticBar1=1") != std::string_view::npos;
                    return {.verdict = set ? Verdict::yes : Verdict::no,
                            .reason = set ? "it does" : "RMForceStaticBar1 is not set",
                            .hint = set ? ""
                                        : "options nvidia NVreg_RegistryDwords="
                                          "\"RMForceStaticBar1=1;RmForceDisableIomapWC=1\""};
                  });
}

Finding probe_multipath(const MachineRoot& root) {
  return ask_text({.question = "Are NVMe drives without multipath?",
                   .signal = "nvme_core.multipath, which P2PDMA does not go through",
                   .source = root.sys + "/module/nvme_core/parameters/multipath"},
                  [](std::string_view text) -> Judged {
                    const bool off = trimmed(text) == "N";
                    return {.verdict = off ? Verdict::yes : Verdict::no,
                            .reason = off ? "it is off" : "multipath is on: EREMOTEIO",
                            .hint = off ? "" : "boot with nvme_core.multipath=N"};
                  });
}

/// "; started with intel_iommu=on": the words of the kernel's command line that are about IOMMUs.
std::string iommu_words(const MachineRoot& root) {
  const auto line = read_text_file(root.proc + "/cmdline");
  std::string words;
  std::string_view rest = line.ok() ? trimmed(*line) : std::string_view();
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (word.substr(0, word.find('=')).ends_with("iommu") || word.starts_with("iommu."))
      words += cat(words.empty() ? "; started with " : " ", printable(word));
  }
  return words;
}

Finding probe_iommu(const MachineRoot& root) {
  Finding question{.question = "Does the IOMMU let devices reach each other?",
                   .signal = "IOMMUs, the types of their groups, and the kernel's command line",
                   .source = root.sys + "/class/iommu"};
  const std::string words = iommu_words(root);
  if (names_in(question.source).empty())
    return judge(std::move(question),
                 {.verdict = Verdict::yes, .reason = cat("there is none", words)});
  const std::string groups = root.sys + "/kernel/iommu_groups";
  for (const std::string& group : names_in(groups)) {
    const auto type = read_text_file(cat(groups, "/", group, "/type"));
    if (type.ok() && trimmed(*type) != "identity")
      return judge(std::move(question), {.verdict = Verdict::degraded,
                                         .reason = cat("group ", group, " translates (",
                                                       printable(trimmed(*type)), ")", words),
                                         .hint = "boot with iommu=pt; nvidia-fs wants it off or "
                                                 "passing through"});
  }
  return judge(std::move(question),
               {.verdict = Verdict::yes, .reason = cat("all groups pass through", words)});
}

Finding probe_bridges(const MachineRoot& root) {
  Finding question{.question = "Do the PCI bridges above GPUs let neighbours speak to each other?",
                   .signal = "Access Control Services (ACS) of each bridge",
                   .source = root.sys + "/bus/pci/devices"};
  std::size_t bridges = 0;
  for (const std::string& gpu : nvidia_gpus(root.sys)) {
    for (const std::string& bridge : bridges_above(real_path(gpu))) {
      const std::string name = bridge.substr(bridge.rfind('/') + 1);
      const auto redirects = redirects_peers(bridge);
      if (!redirects)
        return judge(std::move(question),
                     {.reason = cat("the configuration of ", name, " is not shown to this user"),
                      .hint = "run as root, who may look"});
      if (*redirects)
        return judge(std::move(question),
                     {.verdict = Verdict::degraded,
                      .reason = cat(name, " sends it up to the processor (ACS redirects)"),
                      .hint = cat("turn ACS off in the firmware, or boot with "
                                  "pci=disable_acs_redir=",
                                  name, "; not where virtual machines own devices")});
      ++bridges;
    }
  }
  return judge(std::move(question), {.verdict = Verdict::yes,
                                     .reason = cat(bridges, " bridges, none of which redirects")});
}

/// A window of a PCI device. Empty: there is none.
struct Window {
  std::uint64_t bytes = 0;
  bool is_64_bit = false;  ///< and takes the next place too
};
constexpr std::uint64_t kMemory64 = 0x100000;  // IORESOURCE_MEM_64 of linux/ioport.h

/// "0x00000000e0000000 0x00000000efffffff 0x..." -> 256 MiB; empty for what is no such line.
Window window_of(std::string_view line) {
  std::array<std::uint64_t, 3> numbers{};  // first, last, flags
  for (std::uint64_t& number : numbers) {
    line = trimmed(line);
    if (!line.starts_with("0x")) return {};
    const auto read = std::from_chars(line.data() + 2, line.data() + line.size(), number, 16);
    if (read.ec != std::errc()) return {};
    line.remove_prefix(static_cast<std::size_t>(read.ptr - line.data()));
  }
  return {.bytes = numbers[1] > numbers[0] ? numbers[1] - numbers[0] + 1 : 0,
          .is_64_bit = (numbers[2] & kMemory64) != 0};
}

std::string_view line_of(std::string_view text, std::size_t index) {
  for (; index > 0; --index) {
    const std::size_t end = text.find('\n');
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

/// BAR1, as NVIDIA numbers windows: the second. Those before Hopper have a first one of 32 bits.
std::uint64_t bar1_of(const std::string& device) {
  const auto text = read_text_file(device + "/resource");
  if (!text.ok()) return 0;
  return window_of(line_of(*text, window_of(line_of(*text, 0)).is_64_bit ? 2 : 1)).bytes;
}

Finding probe_bar1(const MachineRoot& root) {
  Finding question{.question = "How much of each GPU's memory can drives see (BAR1)?",
                   .signal = "PCI devices of NVIDIA that display or compute",
                   .source = root.sys + "/bus/pci/devices"};
  std::string seen;
  for (const std::string& device : nvidia_gpus(root.sys))
    seen += cat(seen.empty() ? "" : "; ", device.substr(device.rfind('/') + 1), ": ",
                format_bytes(bar1_of(device)));
  if (seen.empty())
    return judge(std::move(question),
                 {.verdict = Verdict::no, .reason = "no GPU of NVIDIA is on the PCI bus"});
  return judge(std::move(question), {.verdict = Verdict::yes, .reason = std::move(seen)});
}

Finding probe_rdma_peer(const MachineRoot& root) {
  Finding question{.question = "Can network cards reach the GPU's memory?",
                   .signal = "the module nvidia_peermem, or the kernel's list of peers' memory",
                   .source = root.sys + "/module/nvidia_peermem"};
  const bool there = ::access(question.source.c_str(), F_OK) == 0;
  const auto listed = read_text_file(root.sys + "/kernel/mm/memory_peers/nv_mem/version");
  if (listed.ok())
    return judge(std::move(question),
                 {.verdict = Verdict::yes, .reason = cat("nv_mem ", printable(trimmed(*listed)))});
  return judge(std::move(question),
               {.verdict = there ? Verdict::yes : Verdict::unknown,
                .reason = there ? "it is loaded" : "not loaded; dma-buf may serve in its place",
                .hint = there ? "" : "modprobe nvidia_peermem where dma-buf is not supported"});
}

}  // namespace

GpuAnswers ask_gpu(const DirectStorageOptions& options) {
  const MachineRoot& root = options.root;
  GpuAnswers answers{.findings = {probe_bar1(root), probe_nvidia_fs(root)}};
  const auto yes = [](const Finding& finding) { return finding.verdict == Verdict::yes; };
  if (!yes(answers.findings.front())) return answers;  // without a GPU all else is beside the point
  answers.nvidia_fs = yes(answers.findings.back());
  const std::array wanted = {probe_open_driver(root), probe_p2pdma(options), probe_static_bar(root),
                             probe_multipath(root)};
  answers.p2pdma = std::ranges::all_of(wanted, yes);
  answers.findings.insert(answers.findings.end(), wanted.begin(), wanted.end());
  answers.findings.push_back(probe_iommu(root));
  answers.findings.push_back(probe_bridges(root));
  answers.findings.push_back(probe_rdma_peer(root));
  return answers;
}

}  // namespace towpath::sys::internal
