#include <towpath/core/text.h>
#include <towpath/device/probe.h>

namespace towpath::device {
namespace {

constexpr std::uint64_t kTrialBytes = 1 << 20;

Finding answered(Finding question, const Status& status, std::string good) {
  question.verdict = status.ok() ? Verdict::yes : Verdict::no;
  const Status cause = status.cause();
  question.reason = status.ok() ? std::move(good)
                                : cat(status.message(), cause.ok() ? "" : ": ", cause.message());
  question.remedy = std::string(status.remedy());
  return question;
}

Finding about_device(const Driver& driver, unsigned ordinal) {
  Finding question{.question = cat("What is GPU ", ordinal, "?"),
                   .signal = "its name, memory, compute capability, PCI address and NUMA node",
                   .source = driver.info().library};
  const auto info = driver.describe(ordinal);
  if (!info.ok()) return answered(std::move(question), info.status(), {});
  const std::string node =
      info->numa_node ? cat("NUMA node ", *info->numa_node) : "no NUMA node is told";
  return answered(
      std::move(question), {},
      cat(printable(info->name), ", ", format_bytes(info->memory_bytes), ", compute ",
          info->compute_major, ".", info->compute_minor, ", ", info->pci_address, ", ", node));
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

std::vector<Finding> probe_devices(const CudaDriverOptions& options) {
  Finding question{.question = "Is there a driver for NVIDIA GPUs?",
                   .signal = "loading it, and starting it",
                   .source = options.library};
  const auto driver = CudaDriver::open(options);
  const auto count = driver.ok() ? (*driver)->device_count() : Result<unsigned>(driver.status());
  if (!count.ok()) return {answered(std::move(question), count.status(), {})};
  std::vector<Finding> findings{answered(
      std::move(question), {}, cat("CUDA ", (*driver)->info().version, ", ", *count, " GPUs"))};
  for (unsigned i = 0; i < *count; ++i) findings.push_back(about_device(**driver, i));
  if (*count > 0) findings.push_back(about_pinned(**driver));
  if (*count > 0) findings.push_back(about_kernel(**driver));
  return findings;
}

}  // namespace towpath::device
