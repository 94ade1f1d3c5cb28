#include <charconv>

#include <towpath/core/format.h>
#include <towpath/sys/judged.h>
#include <towpath/sys/machine.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/numa.h>
#include <towpath/sys/numa_placement.h>
#include <towpath/sys/process.h>
#include <towpath/sys/processors.h>
#include <towpath/sys/rdma_ports.h>
#include <towpath/sys/uring.h>

namespace towpath::sys {
namespace {

constexpr std::uint64_t kEnoughLockedBytes = 64ull << 20;  // registered buffers of a small agent
constexpr std::uint64_t kEnoughSharedBytes = 64ull << 20;  // what containers get by default

Judged judge_kernel(std::string_view text) {
  const auto release = parse_release(text);
  if (!release) return not_understood(text);
  const bool enough = *release >= KernelRelease{5, 19};
  return {.verdict = enough ? Verdict::yes : Verdict::degraded,
          .reason = cat("Linux ", printable(trimmed(text)), enough ? "" : " is older than 5.19"),
          .hint = enough ? "" : "use Linux 5.19 or newer; without, files go through threads"};
}

/// With CAP_IPC_LOCK, of the first user namespace, what is pinned is not counted (capabilities(7)).
bool is_exempt_from_locked_memory(const MachineRoot& root) {
  constexpr std::uint64_t kIpcLock = 1ull << 14;
  const auto status = read_text_file(root.proc + "/self/status");
  const auto held = status.ok() ? line_after(*status, "CapEff:") : std::nullopt;
  if (!held) return false;
  const std::string_view digits = trimmed(*held);
  std::uint64_t rights = 0;
  (void)std::from_chars(digits.data(), digits.data() + digits.size(), rights, 16);
  const auto users = read_text_file(root.proc + "/self/uid_map");
  const bool is_first = !users.ok() || users->find("4294967295") != std::string::npos;
  return is_first && (rights & kIpcLock) != 0;
}

Judged judge_locked_memory(std::string_view limits, bool is_exempt) {
  const auto line = line_after(limits, "Max locked memory");
  const std::string_view rest = line ? trimmed(*line) : std::string_view();
  const std::string_view soft = rest.substr(0, rest.find(' '));
  if (soft == "unlimited") return {.verdict = Verdict::yes, .reason = "unlimited"};
  const auto bytes = parse_number(soft);
  if (!bytes) return {.reason = "the limit of locked memory is not among the limits"};
  const bool enough = is_exempt || *bytes >= kEnoughLockedBytes;
  return {.verdict = enough ? Verdict::yes : Verdict::degraded,
          .reason = cat("limited to ", format_bytes(*bytes),
                        is_exempt ? ", from which this process is exempt (CAP_IPC_LOCK)" : ""),
          .hint = enough ? ""
                         : "ulimit -l unlimited (LimitMEMLOCK=infinity, --ulimit memlock=-1), or "
                           "CAP_IPC_LOCK; without, large buffers are not registered"};
}

Judged judge_huge_pages(std::string_view meminfo) {
  const auto total = line_after(meminfo, "HugePages_Total:");
  const auto free = line_after(meminfo, "HugePages_Free:");
  const auto total_pages = total ? parse_number(*total) : std::nullopt;
  const auto free_pages = free ? parse_number(*free) : std::nullopt;
  if (!total_pages || !free_pages) return {.reason = "this kernel reports no huge pages"};
  const bool some = *free_pages > 0;
  return {.verdict = some ? Verdict::yes : Verdict::degraded,
          .reason = cat(*free_pages, " of ", *total_pages, " reserved pages are free"),
          .hint = some ? "" : "sysctl vm.nr_hugepages=N; without, ordinary pages are used"};
}

Judged judge_transparent(std::string_view text) {
  if (text.find("[always]") != std::string_view::npos)
    return {.verdict = Verdict::yes, .reason = "always"};
  if (text.find("[madvise]") != std::string_view::npos)
    return {.verdict = Verdict::yes, .reason = "for memory that asks for them (madvise)"};
  if (text.find("[never]") != std::string_view::npos)
    return {.verdict = Verdict::degraded,
            .reason = "never",
            .hint = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
  return not_understood(text);
}

}  // namespace

std::optional<KernelRelease> parse_release(std::string_view text) noexcept {
  KernelRelease release;
  const char* const end = text.data() + text.size();
  const auto dot = std::from_chars(text.data(), end, release.major);
  if (dot.ec != std::errc() || dot.ptr == end || *dot.ptr != '.') return std::nullopt;
  if (std::from_chars(dot.ptr + 1, end, release.minor).ec != std::errc()) return std::nullopt;
  return release;
}

Finding probe_kernel(const MachineRoot& root) {
  return ask_text({.question = "Is the kernel new enough?",
                   .signal = "its release, against 5.19",
                   .source = root.proc + "/sys/kernel/osrelease"},
                  judge_kernel);
}

Finding probe_locked_memory(const MachineRoot& root) {
  return ask_text({.question = "Can enough memory be pinned?",
                   .signal = cat("RLIMIT_MEMLOCK, against ", format_bytes(kEnoughLockedBytes)),
                   .source = root.proc + "/self/limits"},
                  [&](std::string_view limits) {
                    return judge_locked_memory(limits, is_exempt_from_locked_memory(root));
                  });
}

Finding probe_shared_memory(FileSystem& files, const MachineRoot& root) {
  Finding question{.question = "Is there space for named shared memory?",
                   .signal = cat("free bytes, against ", format_bytes(kEnoughSharedBytes)),
                   .source = root.shared_memory};
  const auto free = files.available_bytes(root.shared_memory);
  if (!free.ok())
    return judge(std::move(question), {.verdict = Verdict::degraded,
                                       .reason = std::string(free.status().message()),
                                       .hint = "mount a tmpfs there; memfds need none"});
  const bool enough = *free >= kEnoughSharedBytes;
  return judge(std::move(question),
               {.verdict = enough ? Verdict::yes : Verdict::degraded,
                .reason = cat(format_bytes(*free), " free"),
                .hint = enough ? "" : "enlarge it (docker run --shm-size); memfds need none"});
}

Finding probe_memfd() {
  Finding question{.question = "Can processes share memory that none can cut short?",
                   .signal = "memfd_create(2) with its size sealed",
                   .source = "the kernel"};
  const auto memfd = create_sealed_memfd("towpath-probe", 4096);
  const Status status = memfd.ok() ? check_sealed(memfd->get(), 4096) : memfd.status();
  if (!status.ok())
    return judge(std::move(question), {.verdict = Verdict::no,
                                       .reason = std::string(status.message()),
                                       .hint = std::string(status.hint())});
  return judge(std::move(question), {.verdict = Verdict::yes, .reason = "a sealed memfd was made"});
}

Finding probe_huge_pages(const MachineRoot& root) {
  return ask_text({.question = "Are huge pages reserved?",
                   .signal = "HugePages_Total and HugePages_Free",
                   .source = root.proc + "/meminfo"},
                  judge_huge_pages);
}

Finding probe_transparent_huge_pages(const MachineRoot& root) {
  return ask_text({.question = "Does the kernel make huge pages by itself?",
                   .signal = "transparent_hugepage/enabled",
                   .source = root.sys + "/kernel/mm/transparent_hugepage/enabled"},
                  judge_transparent);
}

Finding probe_numa(const MachineRoot& root) {
  Finding question{.question = "Which memory is near which processors?",
                   .signal = "the nodes that are online",
                   .source = root.sys + "/devices/system/node"};
  const auto nodes = numa_nodes(root.sys);
  if (!nodes.ok())
    return judge(std::move(question), {.reason = std::string(nodes.status().message())});
  std::string reason = cat(nodes->size(), nodes->size() == 1 ? " node" : " nodes");
  for (const NumaNode& node : *nodes)
    reason += cat("; node ", node.id, ": ", node.cpus.size(), " processors, ",
                  format_bytes(node.memory_bytes));
  return judge(std::move(question), {.verdict = Verdict::yes, .reason = std::move(reason)});
}

Finding probe_numa_placement() {
  Finding question{.question = "Can memory be placed near the processors that use it?",
                   .signal = "mbind(2) of a page to the node of this thread",
                   .source = "the kernel"};
  const auto page = Mapping::anonymous(page_size());
  const Status status =
      page.ok() ? place_memory(page->bytes(), {.node = current_numa_node()}) : page.status();
  if (!status.ok())
    return judge(std::move(question),
                 {.verdict = Verdict::degraded,
                  .reason = std::string(status.message()),
                  .hint = status.hint().empty() ? "memory lies where the kernel puts it, which is "
                                                  "no loss on a machine with one node"
                                                : std::string(status.hint())});
  return judge(std::move(question), {.verdict = Verdict::yes, .reason = "a page was placed"});
}

Finding probe_direct_io(FileSystem& files, const std::string& directory) {
  Finding question{.question = cat("Can files in ", printable(directory, 256),
                                   " be read and written past the page cache?"),
                   .signal = "open(O_DIRECT), then statx(STATX_DIOALIGN) or a 4096-byte trial",
                   .source = directory};
  const auto file = files.open_temporary({.where = directory, .named = false, .direct = true});
  if (!file.ok())
    return judge(std::move(question), {.reason = std::string(file.status().message()),
                                       .hint = std::string(file.status().hint())});
  if ((*file)->direct())
    return judge(
        std::move(question),
        {.verdict = Verdict::yes, .reason = cat("aligned to ", (*file)->alignment(), " bytes")});
  return judge(std::move(question),
               {.verdict = Verdict::degraded,
                .reason = (*file)->direct_refusal(),
                .hint = "use a directory on a local disk; without, the page cache is used"});
}

std::vector<Finding> probe_machine(FileSystem& files, const std::vector<std::string>& directories,
                                   const MachineRoot& root) {
  std::vector<Finding> findings{probe_kernel(root)};
  for (Finding& finding : probe_ring()) findings.push_back(std::move(finding));
  findings.push_back(probe_locked_memory(root));
  findings.push_back(probe_memfd());
  findings.push_back(probe_process_memory(root.proc));
  findings.push_back(probe_shared_memory(files, root));
  findings.push_back(probe_huge_pages(root));
  findings.push_back(probe_transparent_huge_pages(root));
  findings.push_back(probe_memory_limit(root));
  findings.push_back(probe_processors(root));
  for (Finding& finding : probe_processors_near_gpus(root)) findings.push_back(std::move(finding));
  for (Finding& finding : probe_ports_near_gpus(root)) findings.push_back(std::move(finding));
  findings.push_back(probe_numa(root));
  findings.push_back(probe_numa_placement());
  for (const std::string& directory : directories)
    findings.push_back(probe_direct_io(files, directory));
  return findings;
}

}  // namespace towpath::sys
