#include <cerrno>

#include <towpath/backends/nvme/nvme_status.h>
#include <towpath/backends/nvme/outcome.h>
#include <towpath/sys/os_error.h>

namespace towpath::backends::nvme {
namespace {

Status errno_failure(int errno_value, const std::string& what) {
  const auto as = [&](Code code, std::string hint) {
    return error(code, cat(what, ": ", sys::errno_text(errno_value)), std::move(hint));
  };
  switch (errno_value) {
    case EREMOTEIO:
      return as(Code::unsupported,
                "the memory belongs to a device that the drive cannot reach: put both behind one "
                "PCIe switch, or stage the bytes in host memory");
    case EFAULT:
      return as(Code::invalid_argument,
                "the bytes are not mapped, or their pages cannot be pinned: a device's memory must "
                "be mapped as peer-to-peer pages (p2pmem/allocate)");
    case EINVAL:
      return as(Code::invalid_argument,
                "the kernel takes no such command: see its log, and max_hw_sectors_kb and "
                "max_segments of the device's queue");
    case ENODEV:
    case ENXIO:
      return as(Code::not_found, "the drive or its namespace is gone: attach it, register it anew");
    case ENOTTY:
    case EOPNOTSUPP:
      return as(Code::unsupported, "use Linux 6.0 or newer, whose nvme driver knows io_uring");
    case EACCES:
    case EPERM:
      return as(Code::denied, "run with CAP_SYS_ADMIN, or give this user the device's file");
    case EIO:
      return as(Code::io_error, "look at the kernel's log and the drive's (nvme error-log)");
    default: return sys::os_error(errno_value, what);
  }
}

}  // namespace

Status failure_of(std::int32_t result, const std::string& what) {
  if (result < 0) return errno_failure(-result, what);
  return to_status(NvmeStatus{static_cast<std::uint16_t>(result)}, what);
}

bool is_worth_a_retry(std::int32_t result) noexcept {
  if (result > 0) return is_worth_a_retry(NvmeStatus{static_cast<std::uint16_t>(result)});
  // EINTR: the driver aborted it, as it does when it resets the controller. ECANCELED: nobody
  // asked.
  return result == -EINTR || result == -EAGAIN || result == -ECANCELED;
}

}  // namespace towpath::backends::nvme
