#include <array>
#include <string>

#include <towpath/core/format.h>
#include <towpath/sys/uring_state.h>

namespace towpath::sys {
namespace {

Finding ring_finding(std::string question, const RingOptions& options) {
  Finding finding{.question = std::move(question),
                  .signal = "io_uring_setup(2), then one no-op through the ring",
                  .source = "the kernel"};
  auto fail = [&](const Status& status) {
    finding.verdict = Verdict::no;
    finding.reason = status.message();
    finding.hint = status.hint();
    return finding;
  };
  auto ring = Ring::open(options);
  if (!ring.ok()) return fail(ring.status());
  if (Status status = ring->nop(1); !status.ok()) return fail(status);
  std::vector<Completion> completions;
  if (auto submitted = ring->submit(); !submitted.ok()) return fail(submitted.status());
  if (Status status = ring->drain(completions); !status.ok()) return fail(status);
  finding.verdict = Verdict::yes;
  finding.reason = cat("a ring of ", options.entries, " entries works, depth ", ring->depth());
  return finding;
}

Finding operations_finding() {
  struct Named {
    int opcode;
    std::string_view name;
  };
  static constexpr std::array kUsed = {
      Named{IORING_OP_READ, "READ"},
      Named{IORING_OP_WRITE, "WRITE"},
      Named{IORING_OP_READV, "READV"},
      Named{IORING_OP_WRITEV, "WRITEV"},
      Named{IORING_OP_READ_FIXED, "READ_FIXED"},
      Named{IORING_OP_WRITE_FIXED, "WRITE_FIXED"},
      Named{IORING_OP_FSYNC, "FSYNC"},
      Named{IORING_OP_ASYNC_CANCEL, "ASYNC_CANCEL"},
      Named{IORING_OP_URING_CMD, "URING_CMD"},
  };
  Finding finding{.question = "Which io_uring operations does the kernel know?",
                  .signal = "IORING_REGISTER_PROBE",
                  .source = "the kernel"};
  struct Free {
    void operator()(io_uring_probe* probe) const { io_uring_free_probe(probe); }
  };
  const std::unique_ptr<io_uring_probe, Free> probe(io_uring_get_probe());
  if (!probe) {
    finding.verdict = Verdict::no;
    finding.reason = "the kernel does not answer the question";
    finding.hint = "use Linux 5.19 or newer, and allow io_uring";
    return finding;
  }
  std::string missing;
  for (const auto& [opcode, name] : kUsed)
    if (!io_uring_opcode_supported(probe.get(), opcode)) missing.append(" ").append(name);
  finding.verdict = missing.empty() ? Verdict::yes : Verdict::degraded;
  finding.reason =
      missing.empty() ? cat("all ", kUsed.size(), " that are used") : "missing:" + missing;
  if (!missing.empty()) finding.hint = "use Linux 5.19 or newer";
  return finding;
}

}  // namespace

std::vector<Finding> probe_ring() {
  return {
      ring_finding("Can files be read and written through io_uring?", {.entries = 8}),
      ring_finding("Can io_uring carry NVMe commands (128-byte entries, 32-byte completions)?",
                   {.entries = 8, .sqe128 = true, .cqe32 = true}),
      operations_finding(),
  };
}

}  // namespace towpath::sys
