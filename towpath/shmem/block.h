// Block: an extent of the symmetric heap, the same on all PEs, that is released when nobody on this
// PE needs it any more.
//
// Releasing is no collective call: a destructor may run at any moment. The extent is used again
// when all PEs have released it, from the next allocation on. So no PE ever waits in a destructor.
// Thread: any; allocate_block(), free_block() and keep_block() one of each PE at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <towpath/memory/region.h>
#include <towpath/shmem/world.h>

namespace towpath::shmem {

struct AllocateOptions {
  std::uint64_t alignment = 64;  ///< bytes; a power of two
  bool zeroed = false;           ///< on every PE, before the call returns on any
};

/// An extent of every PE's heap.
struct BlockPlace {
  std::uint32_t slot = 0;  ///< names the block on all PEs while it lives
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};

class Block {
 public:
  /// Takes over what the heap gave; size 0 has no place.
  Block(std::shared_ptr<World> world, const BlockPlace& place)
      : world_(std::move(world)), place_(place) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();

  const std::shared_ptr<World>& world() const noexcept { return world_; }
  const BlockPlace& place() const noexcept { return place_; }
  std::byte* local() const noexcept { return world_->heap_base() + place_.offset; }

 private:
  const std::shared_ptr<World> world_;
  const BlockPlace place_;
};

using SharedBlock = std::shared_ptr<const Block>;

/// Collective over all PEs. Size 0 is legal. What all have released is reclaimed first.
/// Errors: gather()'s (sizes differ), exhausted, invalid_argument.
Result<SharedBlock> allocate_block(const std::shared_ptr<World>& world, std::uint64_t size_bytes,
                                   const AllocateOptions& options);

/// Collective: lets go of `block`, and reclaims what all have released: this one too, unless
/// somebody else (a region) still holds it on some PE. Errors: gather()'s.
Status free_block(SharedBlock block);

/// Collective: `block` stays as it is, for a user that needs no more than `size_bytes` of it.
/// Errors: gather()'s (sizes or blocks differ).
Status keep_block(const Block& block, std::uint64_t size_bytes);

/// The bytes of `block` on this PE as a region, which keeps them from being reclaimed. Another
/// process may map it: the descriptor has the heap's memfd. Errors: invalid_argument (size 0).
Result<memory::SharedRegion> region_of(SharedBlock block);

}  // namespace towpath::shmem
