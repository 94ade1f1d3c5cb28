// BlockRegion: an extent of a raw device, such as an NVMe namespace.
//
// It opens nothing and holds nothing open: the backend that moves its bytes does that, and refuses
// a device that is in use. Whether the device may be written to is said here, once and explicitly.
// Invariants: the answers never change. Thread: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <towpath/core/result.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

enum class BlockAccess : std::uint8_t {
  read_only,
  read_write,  ///< the user's word that what is on the device may be lost
};

/// What the key of a block region says: "ro:/dev/ng0n1", "rw:/dev/ng0n1".
struct BlockKey {
  std::string path;
  BlockAccess access = BlockAccess::read_only;

  std::string to_string() const;
  /// A path alone is read-only. Errors: invalid_argument (no path, or a zero byte in it).
  static Result<BlockKey> parse(const std::string& key);
};

struct BlockOptions {
  std::string path;              ///< /dev/ng0n1
  std::uint64_t offset = 0;      ///< in bytes
  std::uint64_t size_bytes = 0;  ///< at least 1; the backend refuses what the device does not have
  BlockAccess access = BlockAccess::read_only;
};

class BlockRegion final : public Region {
  struct Private {};  // makes the constructor ours, yet reachable by make_shared

 public:
  /// Errors: invalid_argument (size 0, no path, an extent that wraps), not_found, denied.
  static Result<std::shared_ptr<BlockRegion>> create(const BlockOptions& options);

  BlockRegion(Private, RegionDescriptor descriptor) noexcept : descriptor_(std::move(descriptor)) {}

  /// `device_id` is the device's number (or the inode of what is none), so that two devices differ
  /// and two names of one do not.
  RegionDescriptor descriptor() const override { return descriptor_; }

 private:
  RegionDescriptor descriptor_;
};

}  // namespace towpath::memory
