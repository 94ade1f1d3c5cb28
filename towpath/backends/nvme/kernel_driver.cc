#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <towpath/backends/nvme/identify.h>
#include <towpath/backends/nvme/kernel_driver.h>
#include <towpath/backends/nvme/outcome.h>
#include <towpath/backends/nvme/uring_engine.h>
#include <towpath/core/format.h>
#include <towpath/run/mutex.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/os_error.h>

namespace towpath::backends::nvme {
namespace {

// As many scattered pages as one bio of Linux holds (256), with bytes that touch one more. Over TCP
// no limit is reported, and 6.12 refuses 4 MiB in scattered pages (EINVAL).
constexpr std::uint64_t kMaxCommandBytes = 255U * 4096U;

std::string quoted_path(const std::string& path) { return cat("'", printable(path, 256), "'"); }

std::int32_t send(int fd, unsigned long request, Command command) {
  const int rc = ::ioctl(fd, request, command.bytes.data());
  return rc < 0 ? -errno : rc;
}

class KernelNamespace final : public Namespace {
 public:
  KernelNamespace(NamespaceInfo info, Access access, sys::Fd device, sys::Fd claim)
      : Namespace(std::move(info), access), device_(std::move(device)), claim_(std::move(claim)) {}

  int fd() const noexcept override { return device_.get(); }
  std::int32_t execute(const Command& command) override {
    return send(device_.get(), NVME_IOCTL_IO_CMD, command);
  }

 private:
  const sys::Fd device_;
  const sys::Fd claim_;  // the block device, open exclusively: nobody mounts it
};

Result<sys::Fd> open_device(const std::string& path, Access access) {
  const int flags = (access == Access::read_write ? O_RDWR : O_RDONLY) | O_CLOEXEC;
  sys::Fd device(::open(path.c_str(), flags));
  if (device) return device;
  const bool forbidden = errno == EACCES || errno == EPERM;
  return sys::os_error(errno, cat("cannot open the namespace ", quoted_path(path)),
                       forbidden ? "run as root, or give this user the device's file" : "");
}

Result<std::uint64_t> number_of(const sys::Fd& device, const std::string& path) {
  struct stat info {};
  if (::fstat(device.get(), &info) != 0)
    return sys::os_error(errno, cat("cannot look at ", quoted_path(path)));
  if (S_ISCHR(info.st_mode)) return static_cast<std::uint64_t>(info.st_rdev);
  return error(
      Code::invalid_argument,
      cat(quoted_path(path), " is ", S_ISBLK(info.st_mode) ? "a block device" : "no device",
          ", not the generic device of a namespace"),
      "name /dev/ng0n1 where the block device is /dev/nvme0n1");
}

Result<sys::Fd> claim_device(const SystemRoot& root, const std::string& block_name) {
  sys::Fd claim(::open(cat(root.dev, "/", block_name).c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  if (claim) return claim;
  if (errno != EBUSY) return sys::os_error(errno, cat("cannot claim ", block_name));
  return error(Code::denied, cat(block_name, " is in use: another program or file system holds it"),
               "find out which (lsof, or mounts of other containers), and let go there");
}

/// Room for one answer of Identify.
class IdentifyPage {
 public:
  Result<ConstByteSpan> ask(int fd, Identify what, std::uint32_t namespace_id) {
    const Command command = encode_identify(what, namespace_id, address_of(bytes_.data()));
    const std::int32_t result = send(fd, NVME_IOCTL_ADMIN_CMD, command);
    if (result != 0) return failure_of(result, "the drive does not say what it is (Identify)");
    return ConstByteSpan(bytes_);
  }

 private:
  alignas(kIdentifyBytes) std::array<std::byte, kIdentifyBytes> bytes_{};
};

/// The least of what the drive, the kernel and a command can do, in whole blocks.
Result<std::uint64_t> max_transfer(const ControllerIdentity& drive, const NamespaceIdentity& shape,
                                   std::uint64_t kernel_limit) {
  const std::uint64_t most = std::min(
      {drive.max_transfer_bytes(), kernel_limit, kMaxBlocks * shape.block_bytes, kMaxCommandBytes});
  if (most >= shape.block_bytes) return most - most % shape.block_bytes;
  return error(Code::unsupported,
               cat("a command moves at most ", most, " bytes, and a block has ", shape.block_bytes),
               "format the namespace with smaller blocks");
}

Result<NamespaceInfo> describe(int fd, const std::string& path, std::uint64_t kernel_limit) {
  const int id = ::ioctl(fd, NVME_IOCTL_ID);
  if (id <= 0) return sys::os_error(errno, cat(quoted_path(path), " is no namespace of NVMe"));
  NamespaceInfo info{.path = path, .id = static_cast<std::uint32_t>(id)};
  IdentifyPage page;
  TOWPATH_TRY(const ConstByteSpan of_drive, page.ask(fd, Identify::controller, 0));
  TOWPATH_TRY(const ControllerIdentity drive, decode_controller(of_drive));
  TOWPATH_TRY(const ConstByteSpan of_namespace, page.ask(fd, Identify::name_space, info.id));
  TOWPATH_TRY(const NamespaceIdentity shape, decode_namespace(of_namespace));
  TOWPATH_TRY(info.max_transfer_bytes, max_transfer(drive, shape, kernel_limit));
  info.model = drive.model;
  info.block_bytes = shape.block_bytes;
  info.blocks = shape.blocks;
  info.has_write_cache = drive.has_write_cache;
  info.deallocates = drive.deallocates;
  return info;
}

Status check_takes_writes(const NamespaceInfo& info) {
  if (info.zone_bytes == 0) return {};
  return error(Code::unsupported,
               cat(quoted_path(info.path), " is a zoned namespace: each of its zones of ",
                   format_bytes(info.zone_bytes), " takes writes in order only"),
               "open it for reading (ro: before the path), or write to an ordinary namespace");
}

class KernelDriver final : public Driver {
 public:
  explicit KernelDriver(SystemRoot root) : root_(std::move(root)) {}

  Result<std::shared_ptr<Namespace>> open(const std::string& path, Access access) override {
    TOWPATH_TRY(sys::Fd device, open_device(path, access));
    TOWPATH_TRY(const std::uint64_t number, number_of(device, path));
    const run::MutexLock lock(mutex_);
    std::erase_if(open_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<Namespace>& known = open_[{number, access}];
    if (auto found = known.lock()) return found;
    TOWPATH_TRY(auto made, open_new(std::move(device), number, path, access));
    known = made;
    return made;
  }

  Result<std::unique_ptr<Engine>> make_engine(std::uint32_t depth) override {
    return UringEngine::open(depth);
  }

 private:
  Result<std::shared_ptr<Namespace>> open_new(sys::Fd device, std::uint64_t number,
                                              const std::string& path, Access access) const {
    TOWPATH_TRY(const std::string generic, generic_name_of(root_, number));
    const std::string block = block_name_of(generic);
    TOWPATH_TRY(check_unused(root_, block));
    sys::Fd claim;
    if (access == Access::read_write) {
      TOWPATH_TRY(claim, claim_device(root_, block));
      // Once more: what came between the look and the claim is seen now, and nothing comes later.
      TOWPATH_TRY(check_unused(root_, block));
    }
    TOWPATH_TRY(NamespaceInfo info,
                describe(device.get(), path, kernel_transfer_limit(root_, block)));
    info.number = number;
    info.zone_bytes = kernel_zone_bytes(root_, block);
    if (access == Access::read_write) TOWPATH_TRY(check_takes_writes(info));
    return std::make_shared<KernelNamespace>(std::move(info), access, std::move(device),
                                             std::move(claim));
  }

  const SystemRoot root_;
  run::Mutex mutex_;
  std::map<std::pair<std::uint64_t, Access>, std::weak_ptr<Namespace>> open_
      TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<Driver> kernel_driver(SystemRoot root) {
  return std::make_shared<KernelDriver>(std::move(root));
}

}  // namespace towpath::backends::nvme
