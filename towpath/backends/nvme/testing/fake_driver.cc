#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/backends/nvme/testing/fake_driver.h>
#include <towpath/core/checked.h>
#include <towpath/sys/os_error.h>

namespace towpath::backends::nvme::testing {
namespace {

constexpr std::int32_t kInvalidOpcode = 0x4001;
constexpr std::int32_t kLbaOutOfRange = 0x4080;
constexpr std::uint32_t kDeallocate = 4;

nvme_uring_cmd as_the_kernel_reads(const Command& command) {
  nvme_uring_cmd read;
  std::memcpy(&read, command.bytes.data(), sizeof read);
  return read;
}

std::uint64_t lba_of(const nvme_uring_cmd& command) noexcept {
  return command.cdw10 | static_cast<std::uint64_t>(command.cdw11) << 32U;
}

std::uint64_t blocks_of(const nvme_uring_cmd& command) noexcept {
  return (command.cdw12 & 0xFFFFU) + 1ULL;
}

}  // namespace

std::int32_t FakeNamespace::execute(const Command& command) {
  const nvme_uring_cmd read = as_the_kernel_reads(command);
  if (keeps) seen.push_back(read);
  return carry_out(read);
}

// In the order in which kernel and drive would object.
std::int32_t FakeNamespace::carry_out(const nvme_uring_cmd& command) {
  if (removed) return -ENODEV;
  if (command.flags != 0 || command.nsid != info().id || command.metadata_len != 0) return -EINVAL;
  if (command.data_len > info().max_transfer_bytes) return -EINVAL;
  switch (static_cast<Opcode>(command.opcode)) {
    case Opcode::flush: return fault_for(0, info().blocks);
    case Opcode::read:
    case Opcode::write: return move(command);
    case Opcode::dataset_management: return deallocate(command);
  }
  return kInvalidOpcode;
}

std::int32_t FakeNamespace::fault_for(std::uint64_t lba, std::uint64_t blocks) {
  for (Fault& fault : faults) {
    if (fault.times == 0 || lba >= fault.to || lba + blocks <= fault.from) continue;
    --fault.times;
    return fault.result;
  }
  return 0;
}

std::int32_t FakeNamespace::move(const nvme_uring_cmd& command) {
  const std::uint64_t lba = lba_of(command);
  const std::uint64_t blocks = blocks_of(command);
  // A real drive would go on past the buffer; a kernel that skips the mapping, past address 0.
  if (command.addr == 0 || command.data_len != blocks * info().block_bytes) return -EFAULT;
  if (!range_fits(lba, blocks, info().blocks)) return kLbaOutOfRange;
  if (const std::int32_t fault = fault_for(lba, blocks); fault != 0) return fault;
  const ByteSpan bytes = bytes_at(command.addr, command.data_len);
  const auto at = static_cast<off_t>(lba * info().block_bytes);
  const bool write = static_cast<Opcode>(command.opcode) == Opcode::write;
  if (write && !writable()) return -EACCES;
  const ssize_t moved = write ? ::pwrite(fd(), bytes.data(), bytes.size(), at)
                              : ::pread(fd(), bytes.data(), bytes.size(), at);
  return moved == static_cast<ssize_t>(bytes.size()) ? 0 : -EIO;
}

std::int32_t FakeNamespace::deallocate(const nvme_uring_cmd& command) {
  const std::uint64_t ranges = command.cdw10 + 1ULL;
  if (command.cdw11 != kDeallocate || command.data_len != ranges * kRangeBytes) return -EINVAL;
  const ConstByteSpan payload = bytes_at(command.addr, command.data_len);
  for (std::uint64_t i = 0; i < ranges; ++i) {
    std::uint32_t blocks = 0;
    std::uint64_t lba = 0;
    std::memcpy(&blocks, payload.data() + i * kRangeBytes + 4, sizeof blocks);
    std::memcpy(&lba, payload.data() + i * kRangeBytes + 8, sizeof lba);
    if (!range_fits(lba, blocks, info().blocks)) return kLbaOutOfRange;
    const Bytes zeros(std::size_t{blocks} * info().block_bytes);
    if (::pwrite(fd(), zeros.data(), zeros.size(), static_cast<off_t>(lba * info().block_bytes)) <
        0)
      return -EIO;
  }
  return 0;
}

void FakeEngine::submit(const Io& io) {
  waiting.push_back(io);
  most_waiting = std::max(most_waiting, waiting.size());
}

std::size_t FakeEngine::reap(std::span<Done> into) {
  while (!manual && !waiting.empty()) end(0);
  const std::size_t count = std::min(into.size(), done.size());
  std::copy_n(done.begin(), count, into.begin());
  done.erase(done.begin(), done.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void FakeEngine::end(std::size_t index) {
  answer(index, waiting.at(index).target->execute(waiting.at(index).command));
}

void FakeEngine::answer(std::size_t index, std::int32_t result) {
  done.push_back({waiting.at(index).id, result});
  waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(index));
}

Result<std::shared_ptr<Namespace>> FakeDriver::open(const std::string& path, Access access) {
  sys::Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) return sys::os_error(errno, cat("cannot open the fake namespace '", path, "'"));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return sys::os_error(errno, "cannot look at it");
  last = std::make_shared<FakeNamespace>(
      NamespaceInfo{.path = path,
                    .model = "FAKE drive of plain memory",
                    .number = info.st_ino,
                    .id = 1,
                    .block_bytes = shape_.block_bytes,
                    .blocks = static_cast<std::uint64_t>(info.st_size) / shape_.block_bytes,
                    .max_transfer_bytes = shape_.max_transfer_bytes,
                    .has_write_cache = shape_.has_write_cache,
                    .deallocates = shape_.deallocates},
      access, std::move(file));
  return last;
}

Result<std::unique_ptr<Engine>> FakeDriver::make_engine(std::uint32_t) {
  auto made = std::make_unique<FakeEngine>();
  engine = made.get();
  return made;
}

}  // namespace towpath::backends::nvme::testing
