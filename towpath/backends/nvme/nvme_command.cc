#include <cstddef>
#include <limits>

#include <linux/nvme_ioctl.h>

#include <towpath/backends/nvme/nvme_command.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>

namespace towpath::backends::nvme {
namespace {

/// Where the fields stand, from byte 0.
constexpr std::size_t kOpcode = 0;
constexpr std::size_t kNamespaceId = 4;
constexpr std::size_t kAddress = 24;
constexpr std::size_t kDataLength = 36;
constexpr std::size_t kCdw10 = 40;
constexpr std::size_t kCdw11 = 44;
constexpr std::size_t kCdw12 = 48;

static_assert(sizeof(nvme_uring_cmd) == kCommandBytes);
static_assert(offsetof(nvme_uring_cmd, opcode) == kOpcode);
static_assert(offsetof(nvme_uring_cmd, nsid) == kNamespaceId);
static_assert(offsetof(nvme_uring_cmd, addr) == kAddress);
static_assert(offsetof(nvme_uring_cmd, data_len) == kDataLength);
static_assert(offsetof(nvme_uring_cmd, cdw10) == kCdw10);
static_assert(offsetof(nvme_uring_cmd, cdw11) == kCdw11);
static_assert(offsetof(nvme_uring_cmd, cdw12) == kCdw12);
// The ioctls take the same layout; only the last word differs, which they answer in.
static_assert(sizeof(nvme_passthru_cmd) == kCommandBytes);
static_assert(offsetof(nvme_passthru_cmd, addr) == kAddress);
static_assert(offsetof(nvme_passthru_cmd, data_len) == kDataLength);
static_assert(offsetof(nvme_passthru_cmd, cdw10) == kCdw10);
static_assert(offsetof(nvme_passthru_cmd, result) == offsetof(nvme_uring_cmd, rsvd2));

constexpr std::uint32_t kForceUnitAccess = 1U << 30U;  // of cdw12
constexpr std::uint32_t kDeallocate = 1U << 2U;        // of cdw11 of Dataset Management

template <typename Word>
void put(ByteSpan into, std::size_t place, Word value) noexcept {
  for (std::size_t i = 0; i < sizeof value; ++i)
    into[place + i] = static_cast<std::byte>(value >> (8 * i));
}

Command begin(std::uint8_t opcode, std::uint32_t namespace_id) noexcept {
  Command command;
  command.bytes[kOpcode] = std::byte{opcode};
  put(command.bytes, kNamespaceId, namespace_id);
  return command;
}

void put_data(Command& command, std::uint64_t address, std::uint32_t length) noexcept {
  put(command.bytes, kAddress, address);
  put(command.bytes, kDataLength, length);
}

Status check(const BlockIo& io) {
  if (io.blocks == 0)
    return error(Code::invalid_argument, cat("a command for 0 blocks at block ", io.lba),
                 "ask for at least one block: the 0 of a command means one");
  if (io.block_bytes == 0 || io.address == 0)
    return error(Code::invalid_argument, cat("blocks of ", io.block_bytes, " bytes at address ",
                                             hex(io.address), ": neither may be 0"));
  const auto bytes = checked_multiply(io.blocks, io.block_bytes);
  if (io.blocks > kMaxBlocks || !bytes || *bytes > std::numeric_limits<std::uint32_t>::max())
    return error(
        Code::out_of_range,
        cat(io.blocks, " blocks of ", io.block_bytes, " bytes are more than a command can say"),
        cat("split it: at most ", kMaxBlocks, " blocks and less than 4 GiB"));
  if (!checked_add(io.lba, io.blocks))
    return error(Code::out_of_range,
                 cat(io.blocks, " blocks from block ", io.lba, " on are past the last number"));
  return {};
}

Result<Command> encode(Opcode opcode, const BlockIo& io) {
  TOWPATH_TRY(check(io));
  Command command = begin(static_cast<std::uint8_t>(opcode), io.namespace_id);
  put_data(command, io.address, static_cast<std::uint32_t>(io.blocks * io.block_bytes));
  put(command.bytes, kCdw10, io.lba);  // cdw10 is its low half, cdw11 the high one
  const auto less_one = static_cast<std::uint32_t>(io.blocks - 1);
  put(command.bytes, kCdw12, io.force_unit_access ? less_one | kForceUnitAccess : less_one);
  return command;
}

}  // namespace

Result<Command> encode_read(const BlockIo& io) { return encode(Opcode::read, io); }
Result<Command> encode_write(const BlockIo& io) { return encode(Opcode::write, io); }

Command encode_flush(std::uint32_t namespace_id) {
  return begin(static_cast<std::uint8_t>(Opcode::flush), namespace_id);
}

void encode_ranges(std::span<const BlockRange> ranges, ByteSpan into) noexcept {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const ByteSpan entry = into.subspan(i * kRangeBytes, kRangeBytes);
    put(entry, 0, std::uint32_t{0});  // context attributes: none
    put(entry, 4, ranges[i].blocks);  // here 1 means one
    put(entry, 8, ranges[i].lba);
  }
}

Result<Command> encode_deallocate(std::uint32_t namespace_id, ConstByteSpan payload) {
  const std::size_t count = payload.size() / kRangeBytes;
  if (payload.size() % kRangeBytes != 0 || count == 0 || count > kMaxRanges)
    return error(Code::invalid_argument,
                 cat("a deallocation with a payload of ", payload.size(), " bytes"),
                 cat("give 1 to ", kMaxRanges, " ranges of ", kRangeBytes, " bytes"));
  Command command = begin(static_cast<std::uint8_t>(Opcode::dataset_management), namespace_id);
  put_data(command, address_of(payload.data()), static_cast<std::uint32_t>(payload.size()));
  put(command.bytes, kCdw10, static_cast<std::uint32_t>(count - 1));
  put(command.bytes, kCdw11, kDeallocate);
  return command;
}

Command encode_identify(Identify what, std::uint32_t namespace_id, std::uint64_t address) {
  Command command = begin(kIdentifyOpcode, namespace_id);
  put_data(command, address, kIdentifyBytes);
  put(command.bytes, kCdw10, static_cast<std::uint32_t>(what));
  return command;
}

}  // namespace towpath::backends::nvme
