#include <algorithm>
#include <iterator>

#include <towpath/core/format.h>
#include <towpath/sys/control_groups.h>
#include <towpath/sys/judged.h>
#include <towpath/sys/numa.h>
#include <towpath/sys/nvidia_gpus.h>
#include <towpath/sys/processors.h>

namespace towpath::sys {
namespace {

constexpr std::uint64_t kEnoughMemory = std::uint64_t{1} << 30U;  // a small tier in the host

/// "1.5", "0.25", "4".
std::string short_decimal(double number) {
  const auto hundredths = static_cast<std::uint64_t>(number * 100 + 0.5);
  std::string text = cat(hundredths / 100, ".", hundredths / 10 % 10, hundredths % 10);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string processors(std::size_t count) {
  return cat(count, count == 1 ? " processor" : " processors");
}

Judged judge_processors(std::size_t allowed, const std::optional<ProcessorLimit>& limit) {
  if (limit)
    return {
        .verdict = Verdict::degraded,
        .reason = cat(processors(allowed), " with the time of ", short_decimal(limit->processors),
                      ": who polls is stopped for the rest of each period"),
        .hint =
            "give whole processors in place of a quota (docker --cpuset-cpus; the static "
            "CPU manager of Kubernetes), or raise it (--cpus, limits.cpu)"};
  if (allowed < 2)
    return {.verdict = Verdict::degraded,
            .reason = processors(allowed),
            .hint = "allow two: a progress thread and an engine share one"};
  return {.verdict = Verdict::yes, .reason = processors(allowed)};
}

std::vector<unsigned> common(const std::vector<unsigned>& a, const std::vector<unsigned>& b) {
  std::vector<unsigned> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

}  // namespace

Result<std::vector<unsigned>> allowed_processors(const MachineRoot& root) {
  TOWPATH_TRY(const std::string status, read_text_file(root.proc + "/self/status"));
  const auto list = line_after(status, "Cpus_allowed_list:");
  if (!list) return error(Code::corrupt, "the status of this process names no processors");
  return parse_cpu_list(*list);
}

int current_processor() noexcept { return ::sched_getcpu(); }

ThreadProcessors::ThreadProcessors() noexcept {
  if (::sched_getaffinity(0, sizeof all_, &all_) != 0) CPU_ZERO(&all_);
}

void ThreadProcessors::keep_off(int processor) const noexcept {
  cpu_set_t others = all_;
  if (processor < 0) return;
  CPU_CLR(static_cast<unsigned>(processor), &others);
  if (CPU_COUNT(&others) > 0) (void)::sched_setaffinity(0, sizeof others, &others);
}

Finding probe_processors(const MachineRoot& root) {
  Finding question{.question = "How many processors may this process use?",
                   .signal = "Cpus_allowed_list, and the quota of its control groups",
                   .source = root.proc + "/self/status"};
  const auto allowed = allowed_processors(root);
  if (!allowed.ok())
    return judge(std::move(question), {.reason = std::string(allowed.status().message())});
  const auto reported = processor_limit(root);
  std::optional<ProcessorLimit> limit =
      reported.ok() ? *reported : std::nullopt;  // no groups, no limits
  if (limit && limit->processors >= static_cast<double>(allowed->size())) limit.reset();
  if (limit) question.source = limit->group;
  return judge(std::move(question), judge_processors(allowed->size(), limit));
}

Finding probe_memory_limit(const MachineRoot& root) {
  Finding question{
      .question = "How much memory may this process have?",
      .signal = cat("the room its control groups leave, against ", format_bytes(kEnoughMemory)),
      .source = root.proc + "/self/cgroup"};
  const auto limit = memory_limit(root);
  if (!limit.ok())
    return judge(std::move(question), {.reason = std::string(limit.status().message())});
  if (!*limit)
    return judge(std::move(question), {.verdict = Verdict::yes, .reason = "no group limits it"});
  const MemoryLimit& tightest = **limit;
  const bool enough = tightest.room() >= kEnoughMemory;
  question.source = tightest.group;
  return judge(
      std::move(question),
      {.verdict = enough ? Verdict::yes : Verdict::degraded,
       .reason = cat(format_bytes(tightest.room()), " are left of ", format_bytes(tightest.bytes)),
       .hint = enough ? ""
                      : "raise the limit (docker --memory, limits.memory); pinned and "
                        "shared memory count, and files in the page cache"});
}

std::vector<Finding> probe_processors_near_gpus(const MachineRoot& root) {
  std::vector<Finding> findings;
  const auto allowed = allowed_processors(root);
  for (const std::string& device : nvidia_gpus(root.sys)) {
    const std::string name = device.substr(device.rfind('/') + 1);
    Finding question{.question = cat("May this process use the processors near GPU ", name, "?"),
                     .signal = "local_cpulist, against Cpus_allowed_list",
                     .source = device + "/local_cpulist"};
    const auto text = read_text_file(question.source);
    const auto near = text.ok() ? parse_cpu_list(*text) : text.status();
    if (!allowed.ok() || !near.ok()) {
      const Status& why = near.ok() ? allowed.status() : near.status();
      findings.push_back(judge(std::move(question), {.reason = std::string(why.message())}));
      continue;
    }
    const std::size_t both = common(*near, *allowed).size();
    findings.push_back(
        judge(std::move(question),
              {.verdict = both > 0 ? Verdict::yes : Verdict::degraded,
               .reason = cat(both, " of ", processors(near->size())),
               .hint = both > 0 ? "" : cat("run it there: taskset -c ", trimmed(*text))}));
  }
  return findings;
}

}  // namespace towpath::sys
