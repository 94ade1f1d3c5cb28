// Commands of NVMe as the kernel takes them from a ring: pure encoders, nothing is sent here.
//
// The kernel reads 72 bytes (struct nvme_uring_cmd, linux/nvme_ioctl.h), little-endian. They look
// like the 64 bytes of the NVMe Base Specification and are not: the data pointer is an address of
// this process and stands at byte 24, the length in bytes at 36, and a timeout comes behind.
//
//    0 opcode  1 flags = 0  2 reserved  4 namespace id      8 cdw2  12 cdw3
//   16 metadata address                                    24 data address
//   32 metadata length      36 data length in bytes        40 cdw10  44 cdw11
//   48 cdw12  52 cdw13      56 cdw14  60 cdw15             64 timeout in ms  68 reserved
//
// The same 72 bytes are what NVME_IOCTL_ADMIN_CMD and NVME_IOCTL_IO_CMD take, whose last word is
// the result. docs/formats/nvme_command.md draws them. Another layout, of 64
// bytes, is passed around elsewhere; what it does to memory: docs/decisions/0013.
//
// Invariant: the data length follows from the blocks, so the two never disagree (a device that is
// reported more than its buffer holds writes past it).
// Thread: immutable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::backends::nvme {

enum class Opcode : std::uint8_t {
  flush = 0x00,
  write = 0x01,
  read = 0x02,
  dataset_management = 0x09,
};

inline constexpr std::uint8_t kIdentifyOpcode = 0x06;  // among admin commands

inline constexpr std::size_t kCommandBytes = 72;

/// A command, ready for the ring. Its data must live until the completion.
struct Command {
  std::array<std::byte, kCommandBytes> bytes{};
  friend bool operator==(const Command&, const Command&) = default;
};

/// The count of blocks is 16 bits, less one.
inline constexpr std::uint64_t kMaxBlocks = 65536;

struct BlockIo {
  std::uint32_t namespace_id = 0;
  std::uint64_t lba = 0;     ///< the first block
  std::uint64_t blocks = 0;  ///< 1 to kMaxBlocks
  std::uint32_t block_bytes = 0;
  std::uint64_t address = 0;       ///< of `blocks * block_bytes` bytes of this process
  bool force_unit_access = false;  ///< writes: past the drive's volatile cache
};

/// Errors: invalid_argument (no blocks, no address, or no block length: zero blocks cannot be said
/// in a command, whose 0 means one), out_of_range (more blocks, or bytes, than a command can say).
Result<Command> encode_read(const BlockIo& io);
Result<Command> encode_write(const BlockIo& io);

/// What was written before and has completed survives a power failure once this has.
Command encode_flush(std::uint32_t namespace_id);

struct BlockRange {
  std::uint64_t lba = 0;
  std::uint32_t blocks = 0;
};
inline constexpr std::size_t kMaxRanges = 256;
inline constexpr std::size_t kRangeBytes = 16;

/// The payload of a deallocation: 16 bytes for each range. `into` has room for all.
void encode_ranges(std::span<const BlockRange> ranges, ByteSpan into) noexcept;
/// `payload` is what encode_ranges() made. Errors: invalid_argument (no range, a part of one, or
/// more than kMaxRanges).
Result<Command> encode_deallocate(std::uint32_t namespace_id, ConstByteSpan payload);

enum class Identify : std::uint8_t { name_space = 0x00, controller = 0x01 };
inline constexpr std::size_t kIdentifyBytes = 4096;

/// An admin command. `address`: room for kIdentifyBytes.
Command encode_identify(Identify what, std::uint32_t namespace_id, std::uint64_t address);

}  // namespace towpath::backends::nvme
