// One door to memory of every kind.
//
// What a kind needs is passed in: a device, a way to pinned memory, a file system. Asking without
// it says what is missing. Thread: any.
#pragma once

#include <memory>

#include <towpath/core/result.h>
#include <towpath/memory/device_region.h>
#include <towpath/memory/disk_region.h>
#include <towpath/memory/host_pages.h>
#include <towpath/memory/object_region.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

class PinnedAllocator;

struct Allocation {
  MemoryKind kind = MemoryKind::system;
  std::uint64_t size_bytes = 0;
  /// device: on which.
  SharedDevice device;
  /// pinned: from where; must live until the call returns.
  PinnedAllocator* pinned = nullptr;
  /// system: in which pages, near which node; its size_bytes is ignored.
  HostPagesOptions pages;
  /// disk: where and how; its size_bytes is ignored.
  DiskOptions disk;
  /// disk: where the file is made; outlives the region.
  sys::FileSystem* files = nullptr;
  /// object: which; its size_bytes is ignored. Nothing is made: a write will.
  ObjectPlace object;
};

/// New memory. Errors: invalid_argument (size 0; disk without files), unsupported (no device, no
/// pinned allocator, or a kind that is not allocated: what is missing, and what would provide it),
/// or those of the kind's region.
Result<std::shared_ptr<Region>> allocate(const Allocation& what);

}  // namespace towpath::memory
