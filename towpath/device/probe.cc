#include <towpath/core/format.h>
#include <towpath/device/cuda/nvml.h>
#include <towpath/device/probe.h>

namespace towpath::device {
namespace {

constexpr std::uint64_t kTrialBytes = 1 << 20;

Finding answered(Finding question, const Status& status, std::string good) {
  question.verdict = status.ok() ? Verdict::yes : Verdict::no;
  const Status cause = status.cause();
  question.reason = status.ok() ? std::move(good)
                                : cat(status.message(), cause.ok() ? "" : ": ", cause.message());
  question.hint = std::string(status.hint());
  return question;
}

Finding about_device(const Driver& driver, unsigned ordinal, const Result<DeviceInfo>& info) {
  Finding question{.question = cat("What is GPU ", ordinal, "?"),
                   .signal = "its name, memory, compute capability, PCI address and NUMA node",
                   .source = driver.info().library};
  if (!info.ok()) return answered(std::move(question), info.status(), {});
  const std::string node =
      info->numa_node ? cat("NUMA node ", *info->numa_node) : "no NUMA node is reported";
  return answered(
      std::move(question), {},
      cat(printable(info->name), ", ", format_bytes(info->memory_bytes), ", compute ",
          info->compute_major, ".", info->compute_minor, ", ", info->pci_address, ", ", node));
}

/// An answer of yes or no, each with what it means; that there is none is unknown.
struct Meant {
  Verdict verdict = Verdict::unknown;
  const char* reason = "";
  const char* hint = "";
};
Finding judged(Finding question, const Result<bool>& answer, const Meant& yes, const Meant& no) {
  if (!answer.ok()) {
    question = answered(std::move(question), answer.status(), {});
    question.verdict = Verdict::unknown;
    return question;
  }
  const Meant& meant = *answer ? yes : no;
  question.verdict = meant.verdict;
  question.reason = meant.reason;
  question.hint = meant.hint;
  return question;
}

Finding about_dma_buf(const CudaDriver& driver, unsigned ordinal) {
  return judged(
      {.question = cat("Can network cards be given the memory of GPU ", ordinal, " as dma-buf?"),
       .signal = "the attribute CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED",
       .source = driver.info().library},
      driver.exports_dma_buf(ordinal), {Verdict::yes, "it is supported"},
      {Verdict::no, "it is not supported",
       "use NVIDIA's open kernel module (515 or newer) on Linux 5.12 or newer, or modprobe "
       "nvidia_peermem"});
}

Finding about_persistence(const DeviceInfo& info, const std::string& management) {
  const auto persists = [&]() -> Result<bool> {
    TOWPATH_TRY(const auto nvml, cuda::Nvml::open(management));
    return nvml->persists(info.pci_address);
  };
  return judged({.question = cat("Does GPU ", info.ordinal, " stay ready while nobody uses it?"),
                 .signal = "persistence mode",
                 .source = management},
                persists(), {Verdict::yes, "persistence mode is on"},
                {Verdict::degraded,
                 "persistence mode is off: the driver is torn down after its last user, and the "
                 "next one waits for it",
                 "systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1, as root"});
}

Finding about_pinned(Driver& driver) {
  Finding question{.question = "Can host memory be pinned for a GPU?",
                   .signal = cat("allocating ", format_bytes(kTrialBytes), " for GPU 0"),
                   .source = driver.info().library};
  const auto device = driver.open(0);
  const Status status =
      device.ok() ? (*device)->allocate_pinned(kTrialBytes).status() : device.status();
  return answered(std::move(question), status, "it was allocated");
}

Finding about_kernel(Driver& driver) {
  Finding question{.question = "Do our kernels run on a GPU, for copies of many short pieces?",
                   .signal = "loading the one that copies boxes on GPU 0",
                   .source = "text in this build, compiled by the driver"};
  const auto device = driver.open(0);
  const Status status = device.ok() ? (*device)->has_box_kernel() : device.status();
  return answered(std::move(question), status, "it was loaded");
}

}  // namespace

std::vector<Finding> probe_devices(const ProbeOptions& options) {
  Finding question{.question = "Is there a driver for NVIDIA GPUs?",
                   .signal = "loading it, and starting it",
                   .source = options.driver.library};
  const auto driver = CudaDriver::open(options.driver);
  const auto count = driver.ok() ? (*driver)->device_count() : Result<unsigned>(driver.status());
  if (!count.ok()) return {answered(std::move(question), count.status(), {})};
  std::vector<Finding> findings{answered(
      std::move(question), {}, cat("CUDA ", (*driver)->info().version, ", ", *count, " GPUs"))};
  for (unsigned i = 0; i < *count; ++i) {
    const auto info = (*driver)->describe(i);
    findings.push_back(about_device(**driver, i, info));
    if (!info.ok()) continue;
    findings.push_back(about_dma_buf(**driver, i));
    findings.push_back(about_persistence(*info, options.management));
  }
  if (*count > 0) findings.push_back(about_pinned(**driver));
  if (*count > 0) findings.push_back(about_kernel(**driver));
  return findings;
}

}  // namespace towpath::device
