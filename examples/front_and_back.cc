// Compute from the front, load from the back, until the two meet: what an engine gains whose
// prefill can end before a prompt does. Engines with a seam for prefixes alone load the first
// blocks instead (kv/connector/load_or_compute.h). The GPU is played by a clock: it computes a
// block every so long, beside what this process does. Source of the idea: Jin et al., "Compute Or
// Load KV Cache? Why Not Both?", arXiv 2410.03065. Built and run by the tests.
#include <algorithm>
#include <cstdio>
#include <ranges>

#include <towpath/kv/digest.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/layout/builder.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/file.h>
#include <towpath/sys/temporary_directory.h>

using namespace towpath;

constexpr kv::SlotId kBlocks = 256;  // of a prompt
constexpr Duration kNap = std::chrono::microseconds(50);

/// Host memory for a prompt, and a store of files below it that has all of the prompt's blocks.
struct Kept {
  Status open(memory::Registrar& registrar, const Clock& clock) {
    TOWPATH_TRY(folder, sys::TemporaryDirectory::create());
    const layout::LayoutConfig config{
        .num_blocks = kBlocks, .num_layers = 8, .outer_dim = 2, .page_size = 16, .inner_dim = 512};
    TOWPATH_TRY(auto memory, layout::PhysicalLayoutBuilder(registrar)
                                 .with_config(config)
                                 .fully_contiguous()
                                 .allocate_system()
                                 .build());
    std::vector<std::unique_ptr<kv::BlockTier>> below(1);
    TOWPATH_TRY(below.front(), kv::DiskTier::open(files, {.directory = folder->path(),
                                                          .capacity_bytes = kGiB,
                                                          .incarnation = 1,
                                                          .block_directory = &directory,
                                                          .tier = 1}));
    TOWPATH_TRY(cache,
                kv::TieredCache::make({clock, directory, memory, std::move(below)},
                                      {.batch_blocks = 8}));  // so that each is heard of soon
    for (kv::BlockHash hash = 1; hash <= kBlocks; ++hash) TOWPATH_TRY(make(hash));
    return cache->flush();
  }
  /// As a prefill would: here the bytes are the name's.
  Status make(kv::BlockHash hash) {
    TOWPATH_TRY(auto slots, cache->allocate(1));
    TOWPATH_TRY(const ByteSpan bytes, cache->layout().bytes({slots.front().slot(), 0, 0}));
    TOWPATH_TRY(const std::uint64_t size, cache->layout().layout().config().block_bytes());
    const ByteSpan whole(bytes.data(), size);  // all layers of a block lie together
    std::ranges::fill(whole, static_cast<std::byte>(hash));
    return cache
        ->register_block({std::move(slots.front()), {{hash, {}}, kv::digest_of(whole, hash)}})
        .status();
  }
  void forget_memory() {
    for (kv::BlockHash hash = 1; hash <= kBlocks; ++hash) (void)cache->pool().drop(hash);
  }

  sys::SystemFileSystem files;
  std::optional<sys::TemporaryDirectory> folder;
  kv::BlockDirectory directory;
  std::unique_ptr<kv::TieredCache> cache;
};

struct Prefill {
  Duration took{0};
  std::uint64_t loaded = 0;  // blocks; the others were computed
};

/// The last blocks are loaded, and the first computed, one every `per_block`, until all are there.
Result<Prefill> from_both_ends(Kept& kept, const Clock& clock, Duration per_block) {
  kept.forget_memory();
  std::vector<kv::CachedBlock> from_back;
  for (kv::BlockHash hash = kBlocks; hash >= 1; --hash) from_back.push_back({hash, {}});
  const Instant begin = clock.now();
  TOWPATH_TRY(kv::Promotion promotion, kept.cache->promote(from_back));
  Prefill prefill;
  for (;;) {
    prefill.took = clock.now() - begin;
    prefill.loaded = promotion.settled();
    const auto computed = static_cast<std::uint64_t>(prefill.took / per_block);
    if (computed + prefill.loaded >= kBlocks) break;
    if (!kept.cache->progress()) kept.cache->wait_for_work(kNap);
  }
  promotion.cancel();  // what is computed needs not come
  while (!promotion.ended()) (void)kept.cache->progress();
  for (const kv::Promoted& one : promotion.take() | std::views::take(prefill.loaded))
    TOWPATH_TRY(one.status);  // proven, each of them
  return prefill;
}

Status compare() {
  TOWPATH_TRY(auto node, standard::Node::open({.name = "engine", .backends = {"loopback"}}));
  Kept kept;
  TOWPATH_TRY(kept.open(node->agent(), node->clock()));
  const auto ms = [](Duration time) { return static_cast<double>(time.count()) / 1e6; };
  TOWPATH_TRY(const Prefill all, from_both_ends(kept, node->clock(), Duration::max()));
  std::printf("a prompt of %u blocks, all on disk: loaded in %.1f ms\n\n", kBlocks, ms(all.took));
  std::puts("computing / loading     load all  compute all  from both ends  loaded");
  for (const double times : {4.0, 2.0, 1.0, 0.5, 0.25}) {
    const auto compute = Duration(static_cast<std::int64_t>(times * all.took.count() / kBlocks));
    TOWPATH_TRY(const Prefill both, from_both_ends(kept, node->clock(), compute));
    std::printf("%19.2f %9.1f ms %9.1f ms %12.1f ms %7llu\n", times, ms(all.took),
                ms(compute * kBlocks), ms(both.took), static_cast<unsigned long long>(both.loaded));
  }
  return {};
}

int main() {
  const Status status = compare();
  if (!status.ok()) std::printf("%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
