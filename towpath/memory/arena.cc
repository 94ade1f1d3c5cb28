#include <towpath/core/check.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/arena.h>
#include <towpath/memory/free_extents.h>
#include <towpath/memory/view.h>
#include <towpath/run/mutex.h>

namespace towpath::memory {

struct ArenaBuffer::State {
  State(SharedRegion region, std::uint64_t page_bytes, std::uint64_t page_count)
      : base(std::move(region)),
        whole(base->descriptor()),
        page_size(page_bytes),
        pages(page_count),
        free(page_count) {}

  std::uint64_t pages_for(std::uint64_t size_bytes) const noexcept {
    return size_bytes / page_size + (size_bytes % page_size != 0 ? 1 : 0);
  }
  ArenaUsage usage() const TOWPATH_REQUIRES(mutex) {
    return {.capacity_bytes = pages * page_size,
            .free_bytes = free.free_pages() * page_size,
            .largest_free_bytes = free.largest_pages() * page_size,
            .buffers = buffers};
  }

  const SharedRegion base;
  const RegionDescriptor whole;
  const std::uint64_t page_size;  // bytes
  const std::uint64_t pages;

  run::Mutex mutex;
  internal::FreeExtents free TOWPATH_GUARDED_BY(mutex);
  std::uint64_t buffers TOWPATH_GUARDED_BY(mutex) = 0;
};

ArenaBuffer::~ArenaBuffer() {
  if (state_ == nullptr) return;
  const run::MutexLock lock(state_->mutex);
  state_->free.give_back(
      {.first = part_.offset / state_->page_size, .pages = state_->pages_for(part_.size_bytes)});
  --state_->buffers;
}

RegionDescriptor ArenaBuffer::descriptor() const {
  if (state_ == nullptr) return {};
  auto described = describe_part(state_->whole, part_);
  TOWPATH_CHECK(described.ok(), "an arena gave out bytes outside its base");
  return *std::move(described);
}

const Registration* ArenaBuffer::registration() const {
  return state_ == nullptr ? nullptr : state_->base->registration();
}

Result<Arena> Arena::create(SharedRegion base, const ArenaOptions& options) {
  const std::uint64_t page_size = options.page_size_bytes;
  if (base == nullptr)
    return error(Code::invalid_argument, "an arena over no region", "pass the region to give out");
  if (!is_power_of_two(page_size))
    return error(Code::invalid_argument, cat("page size ", page_size, " is not a power of two"),
                 "use 4096 or another power of two");
  const std::uint64_t pages = base->size() / page_size;
  if (pages == 0)
    return error(Code::invalid_argument,
                 cat("an arena of ", base->size(), " bytes holds no page of ", page_size),
                 "use a larger region or smaller pages");
  return Arena(std::make_shared<ArenaBuffer::State>(std::move(base), page_size, pages));
}

Result<ArenaBuffer> Arena::allocate(std::uint64_t size_bytes) {
  if (size_bytes == 0)
    return error(Code::invalid_argument, "cannot allocate 0 bytes of an arena",
                 "ask for at least 1 byte");
  const std::uint64_t pages = state_->pages_for(size_bytes);
  if (pages > state_->pages)
    return error(
        Code::invalid_argument,
        cat(size_bytes, " bytes are more than the arena's ", state_->pages * state_->page_size),
        "make a larger arena: waiting for buffers to come back will not help");
  const run::MutexLock lock(state_->mutex);
  const auto first = state_->free.take(pages);
  if (!first) {
    const ArenaUsage now = state_->usage();
    return error(
        Code::exhausted,
        cat("cannot allocate ", size_bytes, " bytes (", pages, " pages of ", state_->page_size,
            "): ", now.free_bytes, " bytes are free, the largest extent ", now.largest_free_bytes),
        "drop buffers first, or make a larger arena");
  }
  ++state_->buffers;
  return ArenaBuffer(state_, {.offset = *first * state_->page_size, .size_bytes = size_bytes});
}

ArenaUsage Arena::usage() const {
  const run::MutexLock lock(state_->mutex);
  return state_->usage();
}

const SharedRegion& Arena::base() const noexcept { return state_->base; }
std::uint64_t Arena::page_size_bytes() const noexcept { return state_->page_size; }

}  // namespace towpath::memory
