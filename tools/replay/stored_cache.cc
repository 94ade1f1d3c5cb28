#include "tools/replay/stored_cache.h"

#include <towpath/core/text.h>
#include <towpath/sys/random.h>
#include <towpath/sys/system_file.h>

#include "tools/replay/cache.h"

namespace towpath::tools::replay {
namespace {

sys::FileSystem& files() {
  static sys::SystemFileSystem system;  // without state
  return system;
}

// Each worker has a store of its own.
std::string directory_of(const Options& options) {
  if (options.worker == 0) return options.store_directory;
  return cat(options.store_directory, "/worker-", options.worker);
}

}  // namespace

Result<std::unique_ptr<StoredCache>> StoredCache::open(const Options& options,
                                                       agent::Agent& agent) {
  std::unique_ptr<StoredCache> made(new StoredCache(options));
  TOWPATH_TRY(const layout::LayoutConfig config, pool_config(options, options.host_blocks));
  TOWPATH_TRY(made->block_bytes_, config.block_bytes());
  TOWPATH_TRY(layout::PhysicalLayout layout, open_host_pool(config, agent));
  TOWPATH_TRY(auto disk, kv::DiskTier::open(files(), {.directory = directory_of(options),
                                                      .capacity_bytes = options.store_bytes,
                                                      .incarnation = sys::random_u64(),
                                                      .presence = &made->presence_,
                                                      .tier = 1}));
  made->disk_ = disk.get();
  std::vector<std::unique_ptr<kv::BlockTier>> below;
  below.push_back(std::move(disk));
  kv::TieredCacheOptions tiers = options.tiers;
  tiers.policy = options.policy;
  TOWPATH_TRY(made->cache_,
              kv::TieredCache::make(
                  {made->clock_, made->presence_, std::move(layout), std::move(below)}, tiers));
  return made;
}

Result<std::vector<kv::BlockRef>> StoredCache::gather(const std::vector<std::uint64_t>& blocks,
                                                      const MakeRoom& make_room) {
  if (blocks.size() > options_.host_blocks)
    return error(
        Code::exhausted,
        cat("a request of ", blocks.size(), " blocks; the host pool has ", options_.host_blocks),
        "make the pool larger with --tiers host=BLOCKS");
  std::vector<kv::BlockRef> held = cache_->match(blocks).here;
  host_hits_ += held.size();
  while (held.size() < blocks.size()) {
    const std::size_t i = held.size();
    const kv::CachedBlock block{blocks[i], i > 0 ? std::optional(blocks[i - 1]) : std::nullopt};
    kv::BlockRef found = cache_->host().find(block.hash);
    if (found) ++host_hits_;
    if (!found && presence_.tiers_of(block.hash) != 0) {
      TOWPATH_TRY(found, promote(block, make_room));
    }
    if (!found) {
      TOWPATH_TRY(found, produce(block, make_room));
    }
    held.push_back(std::move(found));
  }
  demote(false);
  return held;
}

// Empty: the disk no longer has it, or what it has is wrong.
Result<kv::BlockRef> StoredCache::promote(const kv::CachedBlock& block, const MakeRoom& make_room) {
  while (true) {
    const Instant begin = clock_.now();
    TOWPATH_TRY(kv::Promotion promotion, cache_->promote(std::span(&block, 1)));
    while (!promotion.ended()) (void)cache_->progress();
    kv::Promoted one = std::move(promotion.take().front());
    if (one.status.ok()) {
      ++disk_hits_;
      loaded_.add(block_bytes_, clock_.now() - begin);
      return std::move(one.block);
    }
    if (one.status.code() == Code::exhausted) {
      TOWPATH_TRY(make_room());
      continue;
    }
    if (one.status.code() != Code::not_found) {
      ++bad_loads_;
      faults_.add(cat("disk: ", one.status.to_string()));
    }
    return kv::BlockRef();
  }
}

Result<kv::BlockRef> StoredCache::produce(const kv::CachedBlock& block, const MakeRoom& make_room) {
  ++misses_;
  auto slots = cache_->allocate(1);
  for (; slots.code() == Code::exhausted; slots = cache_->allocate(1)) TOWPATH_TRY(make_room());
  if (!slots.ok()) return slots.status();
  const kv::SlotId slot = slots->front().slot();
  const Instant begin = clock_.now();
  TOWPATH_TRY(const std::uint64_t bytes, fill_block(layout(), block.hash, slot));
  produced_.add(bytes, clock_.now() - begin);
  TOWPATH_TRY(const kv::Digest digest, kv::digest_block(digester_, layout(), slot));
  return cache_->register_block(kv::CompleteBlock(std::move(slots->front()), {block, digest}));
}

// A batch of what waits, or all of it.
void StoredCache::demote(bool all) {
  const std::uint64_t before = cache_->figures().below.front().demoted_bytes;
  const Instant begin = clock_.now();
  if (all)
    (void)cache_->flush();  // what failed is in the figures
  else
    (void)cache_->progress();
  const std::uint64_t bytes = cache_->figures().below.front().demoted_bytes - before;
  if (bytes > 0) spilled_.add(bytes, clock_.now() - begin);
}

TierCounts StoredCache::counts() const {
  return {.host_blocks = cache_->host().registered(),
          .disk_blocks = disk_->store().figures().blocks,
          .host_hits = host_hits_,
          .disk_hits = disk_hits_,
          .misses = misses_};
}

void StoredCache::report(Message& summary) {
  demote(true);  // for the next replay
  const std::string where = cat("segments in ", directory_of(options_), ", proven by digest");
  produced_.set_path("stores into prefill's pool (a sealed memfd)");
  spilled_.set_path(where);
  loaded_.set_path(where);
  produced_.put(summary, "produce");
  spilled_.put(summary, "spill");
  loaded_.put(summary, "load");
  put_hits(summary, counts());
  summary.figures["bad_loads"] = bad_loads_;
  const kv::TieredCacheFigures figures = cache_->figures();
  for (const auto& [what, count] : figures.below.front().failed)
    if (what != "get: corrupt") faults_.add("disk tier", count, cat("disk tier: ", what));
}

}  // namespace towpath::tools::replay
