#include <algorithm>
#include <bit>
#include <cstring>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/shmem/block.h>
#include <towpath/shmem/gather.h>
#include <towpath/shmem/world_parts.h>

namespace towpath::shmem {
namespace {

constexpr std::uint64_t kWordBits = 64;

class SymmetricRegion final : public memory::Region {
 public:
  explicit SymmetricRegion(SharedBlock block) : block_(std::move(block)) {}

  RegionDescriptor descriptor() const override {
    return {.kind = MemoryKind::system,
            .address = address_of(block_->local()),
            .length = block_->place().size_bytes,
            .fd = block_->world()->heap_fd(),
            .fd_offset = block_->place().offset};
  }

 private:
  SharedBlock block_;
};

/// Says what this PE has released; all see it after the gathering.
void publish_released(World& world, std::uint32_t parity) {
  PeRecord& mine = world.job().pe(world.my_pe());
  bool any = false;
  for (std::size_t word = 0; word < world.released().size(); ++word) {
    // Acquire: pairs with the release in ~Block.
    mine.released[parity][word] = world.released()[word].load(std::memory_order_acquire);
    any = any || mine.released[parity][word] != 0;
  }
  mine.released_any[parity].store(any ? 1 : 0, std::memory_order_relaxed);
}

/// Reclaims what all PEs said that they have released: the same blocks, in the same order.
void reclaim(World& world, std::uint32_t parity) {
  const JobView& job = world.job();
  for (std::uint32_t pe = 0; pe < job.pes(); ++pe)
    if (job.pe(pe).released_any[parity].load(std::memory_order_relaxed) == 0) return;
  for (std::size_t word = 0; word < world.released().size(); ++word) {
    std::uint64_t by_all = ~std::uint64_t{0};
    for (std::uint32_t pe = 0; pe < job.pes(); ++pe) by_all &= job.pe(pe).released[parity][word];
    if (by_all == 0) continue;
    world.released()[word].fetch_and(~by_all, std::memory_order_relaxed);
    for (; by_all != 0; by_all &= by_all - 1)
      world.heap().release(static_cast<std::uint32_t>(word * kWordBits + std::countr_zero(by_all)));
  }
}

/// A place in a heap is aligned as its offset is, as far as every PE's heap is; each notes where
/// its own lies.
Status check_alignment(const World& world, const TeamView& everyone, std::uint64_t alignment) {
  for (std::uint32_t pe = 0; pe < world.pes(); ++pe)
    if (const std::uint64_t base = note_of(world, everyone, pe); base % alignment != 0)
      return error(
          Code::invalid_argument,
          cat("an alignment of ", alignment, ", and the heap of PE ", pe, " lies at ", hex(base)),
          "use a smaller one");
  return {};
}

Status gather_and_reclaim(World& world, const Call& call) {
  // What a forked child has let go of is its PE's still: nothing is published for it.
  TOWPATH_TRY(world.check_process());
  TeamView& everyone = world.team(0);
  const std::uint32_t parity = everyone.rounds % 2;
  publish_released(world, parity);
  TOWPATH_TRY(gather(world, everyone, {.call = call, .note = address_of(world.heap_base())}));
  reclaim(world, parity);
  return {};
}

}  // namespace

Block::~Block() {
  if (place_.size_bytes == 0) return;
  const std::uint64_t bit = std::uint64_t{1} << (place_.slot % kWordBits);
  // Release: pairs with the acquire in publish_released(); what was read of the block is read.
  world_->released()[place_.slot / kWordBits].fetch_or(bit, std::memory_order_release);
}

Result<SharedBlock> allocate_block(const std::shared_ptr<World>& world, std::uint64_t size_bytes,
                                   const AllocateOptions& options) {
  const Call call{.kind = CallKind::allocate,
                  .arguments = {size_bytes, options.alignment, options.zeroed ? 1ULL : 0ULL}};
  TOWPATH_TRY(gather_and_reclaim(*world, call));
  if (is_power_of_two(options.alignment))  // or else the heap says so
    TOWPATH_TRY(check_alignment(*world, world->team(0), options.alignment));
  if (size_bytes == 0) return std::make_shared<const Block>(world, BlockPlace{});
  TOWPATH_TRY(const BlockPlace place,
              world->heap().allocate({.size_bytes = size_bytes, .alignment = options.alignment}));
  auto block = std::make_shared<const Block>(world, place);
  if (options.zeroed) {
    std::memset(block->local(), 0, size_bytes);
    TOWPATH_TRY(gather(*world, world->team(0), {.call = call}));
  }
  return block;
}

Status free_block(SharedBlock block) {
  if (block == nullptr) return {};
  const std::shared_ptr<World> world = block->world();
  const Call call{.kind = CallKind::free,
                  .arguments = {block->place().slot, block->place().size_bytes}};
  block.reset();
  return gather_and_reclaim(*world, call);
}

Status keep_block(const Block& block, std::uint64_t size_bytes) {
  World& world = *block.world();
  return gather(world, world.team(0),
                {.call = {.kind = CallKind::keep, .arguments = {block.place().slot, size_bytes}}});
}

Result<memory::SharedRegion> region_of(SharedBlock block) {
  if (block == nullptr || block->place().size_bytes == 0)
    return error(Code::invalid_argument, "a symmetric buffer of 0 bytes is no region",
                 "allocate at least one element");
  return std::make_shared<const SymmetricRegion>(std::move(block));
}

}  // namespace towpath::shmem
