// SharedMemoryRegion: system memory in a sealed memfd, which another process may map too.
//
// It is no way to hand the memfd over: the descriptor reports its number (`fd`, `fd_offset`), and a
// rendezvous or backend passes it on. It has no name in any file system, so nothing is left behind
// when all its processes die.
// Invariants: no side can shrink the memory under the other (the memfd is sealed, and map() looks).
// Thread: immutable; the bytes are as safe as both processes make them.
#pragma once

#include <memory>
#include <string>

#include <towpath/core/result.h>
#include <towpath/memory/region.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/mapping.h>

namespace towpath::memory {

struct SharedMemoryOptions {
  std::string name = "towpath";  ///< a hint for people, seen in /proc/PID/maps; need not be new
  std::uint64_t size_bytes = 0;
};

struct MapSharedMemory {
  std::uint64_t fd_offset = 0;  ///< of the first byte in the memfd; a multiple of the page size
  std::uint64_t size_bytes = 0;
  /// Where in this process to map, a multiple of the page size; null: anywhere. What is mapped
  /// there already is never replaced.
  void* at = nullptr;
};

class SharedMemoryRegion final : public Region {
  struct Private {};

 public:
  /// Zeroed and page-aligned. Errors: invalid_argument (size 0), exhausted, unsupported (no memfd).
  static Result<std::shared_ptr<SharedMemoryRegion>> create(const SharedMemoryOptions& options);

  /// Maps what another process created. Takes `memfd` over, also on failure.
  /// Errors: invalid_argument (size 0, nothing open, unaligned), out_of_range (smaller than was
  /// promised), denied (its size is not sealed), already_exists (something lies at `at`),
  /// exhausted.
  static Result<std::shared_ptr<SharedMemoryRegion>> map(sys::Fd memfd,
                                                         const MapSharedMemory& options);

  SharedMemoryRegion(Private, sys::Fd memfd, sys::Mapping mapping, std::uint64_t fd_offset) noexcept
      : memfd_(std::move(memfd)), mapping_(std::move(mapping)), fd_offset_(fd_offset) {}

  RegionDescriptor descriptor() const override;

 private:
  sys::Fd memfd_;
  sys::Mapping mapping_;
  std::uint64_t fd_offset_;
};

}  // namespace towpath::memory
