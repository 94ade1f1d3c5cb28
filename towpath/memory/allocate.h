// One door to memory of every kind.
//
// The kinds that this build cannot give are words here: asking for one says what is missing.
// Thread: any.
#pragma once

#include <memory>

#include <towpath/core/result.h>
#include <towpath/memory/disk_region.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

struct Allocation {
  MemoryKind kind = MemoryKind::system;
  std::uint64_t size_bytes = 0;
  std::uint64_t device_id = 0;  ///< device: which GPU; pinned: near which
  /// disk: where and how; its size_bytes is not looked at.
  DiskOptions disk;
  /// disk: where the file is made; outlives the region.
  sys::FileSystem* files = nullptr;
};

/// New memory. Errors: invalid_argument (size 0; disk without files), unsupported (what is missing,
/// and what would provide it), or those of SystemRegion::allocate and DiskRegion::open.
Result<std::shared_ptr<Region>> allocate(const Allocation& what);

}  // namespace towpath::memory
