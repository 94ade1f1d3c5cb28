#include "tools/replay/cache.h"

#include <algorithm>

#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/kv/disk/block_store.h>
#include <towpath/kv/disk/segment_format.h>
#include <towpath/kv/tiers/object_tier.h>
#include <towpath/run/file_engines.h>
#include <towpath/sys/random.h>
#include <towpath/sys/system_file.h>

#include "tools/command.h"
#include "tools/replay/pool.h"

namespace towpath::tools::replay {
namespace {

// Every so many-th block is torn on its way to disk: enough that some come back.
constexpr std::uint64_t kTornEvery = 4;

constexpr Duration kPause = std::chrono::milliseconds(1);

// Each worker has a place of its own: a directory has one owner, and so has a bounded prefix.
std::string of_worker(const Options& options, const std::string& place) {
  return options.worker == 0 ? place : cat(place, "/worker-", options.worker);
}

/// Nothing is wrong. A neighbour owes nobody a block, but one that it grants must prove.
bool is_here_or_a_miss(const Status& status, Place place) {
  if (place == Place::peers) return status.code() != Code::corrupt;
  return status.ok() || status.code() == Code::exhausted || status.code() == Code::not_found;
}

kv::CachedBlock block_at(const std::vector<std::uint64_t>& blocks, std::size_t i) {
  return {blocks[i], i > 0 ? std::optional(blocks[i - 1]) : std::nullopt};
}

/// Asks a store for a block: one that does not answer is reported once, not by each block of a
/// replay.
Status answers(kv::BlockTier& store) {
  kv::TierTask task{.kind = kv::TierTask::Kind::look};
  store.begin(task);
  while (!task.has_ended)
    if (!store.progress()) store.wait_for_work(kPause);
  if (task.status.ok() || task.status.code() == Code::not_found) return {};
  return error(task.status.code(), cat("the ", store.name(), " tier of --tiers does not answer"),
               "see that its store runs, and that its address, its bucket and the keys are right")
      .because(task.status);
}

}  // namespace

std::unique_ptr<kv::BlockTier> Cache::with_mistakes(std::unique_ptr<kv::BlockTier> tier,
                                                    TornDevice* device) {
  const bool tears = options_.inject == Mistake::torn_write && device != nullptr;
  if (options_.faults <= 0 && !tears) return tier;
  return std::make_unique<FaultyTier>(std::move(tier), chance_, device, tears ? kTornEvery : 0);
}

// Opening ----------------------------------------------------------------------------------------

std::string Cache::disk_directory() const {
  return own_ ? own_->path() : of_worker(options_, options_.store_directory);
}

Status Cache::open_disk(Tiers& tiers) {
  if (options_.store_directory.empty()) {
    own_ = sys::TemporaryDirectory::at(own_folder(options_));
  }
  const std::string directory = disk_directory();
  const std::uint64_t capacity =
      own_ ? options_.disk_blocks * kv::room_of({.length = block_bytes_}) : options_.store_bytes;
  const auto tier = static_cast<kv::TierIndex>(tiers.size() + 1);
  TOWPATH_TRY(files_, kv::store_files(directory));
  TOWPATH_TRY(auto real, run::open_file_device());
  auto device = std::make_unique<TornDevice>(std::move(real));
  TornDevice* const tears = device.get();
  TOWPATH_TRY(auto disk, kv::DiskTier::open(*files_,
                                            {.directory = directory,
                                             .capacity_bytes = capacity,
                                             .incarnation = sys::random_u64(),
                                             .direct = options_.direct,
                                             .block_directory = &block_directory_,
                                             .tier = tier},
                                            std::move(device)));
  disk_ = disk.get();
  tiers.push_back(with_mistakes(std::move(disk), tears));
  if (options_.faults > 0) faulty_disk_ = static_cast<FaultyTier*>(tiers.back().get());
  below_.push_back({.place = Place::disk,
                    .down = "spill",
                    .up = "load",
                    .where = cat("segments in ", directory, ", proven by digest and synced; ",
                                 disk_->store().device().describe())});
  return {};
}

Status Cache::open_objects(agent::Agent& agent, Tiers& tiers) {
  standard::ObjectPlace place = *options_.objects;
  place.prefix = of_worker(options_, place.prefix);
  kv::ObjectTierOptions tier{.agent = &agent,
                             .block_bytes = block_bytes_,
                             .timeout = options_.timeout,
                             .block_directory = &block_directory_,
                             .tier = static_cast<kv::TierIndex>(tiers.size() + 1),
                             .policy = options_.policy};
  TOWPATH_TRY(auto objects, standard::open_object_tier(place, tier, clock_));
  TOWPATH_TRY(answers(*objects));
  tiers.push_back(with_mistakes(std::move(objects), nullptr));
  below_.push_back({.place = Place::object,
                    .down = "store",
                    .up = "fetch",
                    .where = cat("objects under ", printable(place.prefix),
                                 "/, proven by digest; up to ", tier.depth, " at a time")});
  return {};
}

Status Cache::open_peers(agent::Agent& agent, const layout::LayoutConfig& config, Tiers& tiers) {
  const auto tier = static_cast<kv::TierIndex>(tiers.size() + 1);
  TOWPATH_TRY(neighbours_,
              Neighbours::open(options_, {agent, clock_, block_directory_, tier}, config));
  tiers.push_back(with_mistakes(neighbours_->take_tier(), nullptr));
  below_.push_back(
      {.place = Place::peers, .down = nullptr, .up = "lease", .where = neighbours_->where()});
  return {};
}

Result<std::unique_ptr<Cache>> Cache::open(const Options& options, agent::Agent& agent) {
  std::unique_ptr<Cache> made(new Cache(options));
  TOWPATH_TRY(const layout::LayoutConfig config, pool_config(options, options.host_blocks));
  TOWPATH_TRY(made->block_bytes_, config.block_bytes());
  TOWPATH_TRY(layout::PhysicalLayout layout, open_host_pool(config, agent));
  Tiers tiers;
  if (has(options, Place::disk)) TOWPATH_TRY(made->open_disk(tiers));
  if (options.objects) TOWPATH_TRY(made->open_objects(agent, tiers));
  if (options.peers) TOWPATH_TRY(made->open_peers(agent, config, tiers));
  kv::TieredCacheOptions cache = options.tiers;
  cache.policy = options.policy;
  if (options.faults > 0) cache.rest = Duration(0);  // the next task shall have its chance, too
  TOWPATH_TRY(made->cache_, kv::TieredCache::make({made->clock_, made->block_directory_,
                                                   std::move(layout), std::move(tiers)},
                                                  cache));
  if (made->neighbours_) TOWPATH_TRY(made->neighbours_->join(*made->cache_));
  return made;
}

Cache::~Cache() {
  if (neighbours_) neighbours_->leave();
  cache_.reset();
  if (!own_) return;
  own_.reset();
  (void)::rmdir(run_folder(options_).c_str());  // by the last, if decode has died
}

// Finding ----------------------------------------------------------------------------------------

Result<std::vector<kv::BlockRef>> Cache::gather(const std::vector<std::uint64_t>& blocks,
                                                const Meanwhile& meanwhile) {
  if (blocks.size() > options_.host_blocks)
    return error(
        Code::exhausted,
        cat("a request of ", blocks.size(), " blocks; the host pool has ", options_.host_blocks),
        "make the pool larger with --host-blocks, or host=BLOCKS of --tiers");
  TOWPATH_TRY(cut_as_asked());
  look(blocks, meanwhile);
  std::vector<kv::BlockRef> held = cache_->match(blocks).here;
  found_[Place::host] += held.size();
  Promoted promoted = promote(blocks, held.size(), meanwhile);
  std::vector<kv::BlockRef> made;
  while (held.size() < blocks.size()) {
    const kv::CachedBlock block = block_at(blocks, held.size());
    kv::BlockRef found = std::move(promoted[block.hash]);
    if (!found && (found = cache_->pool().find(block.hash))) ++found_[Place::host];
    if (!found && block_directory_.tiers_of(block.hash) != 0) {
      TOWPATH_TRY(found, promote(block, meanwhile));
    }
    if (!found) {
      TOWPATH_TRY(found, produce(block, meanwhile));
      made.push_back(found);
    }
    held.push_back(std::move(found));
  }
  TOWPATH_TRY(spoil_as_asked(made));
  TOWPATH_TRY(spoil_by_chance(made));
  demote(false);
  return held;
}

/// Lets the tiers and the neighbours go on; sleeps for a moment when they have nothing to do.
void Cache::take_a_turn(const Meanwhile& meanwhile) {
  if (neighbours_) {
    meanwhile.listen();
    neighbours_->serve();
  }
  if (!cache_->progress()) cache_->wait_for_work(kPause);
}

bool Cache::serve() {
  if (!neighbours_) return false;
  neighbours_->serve();
  return cache_->progress();
}

/// Until all is known that a store would have to be asked for.
void Cache::look(const std::vector<std::uint64_t>& blocks, const Meanwhile& meanwhile) {
  cache_->look(blocks);
  while (cache_->looking() > 0) take_a_turn(meanwhile);
}

/// What lies below, those of a tier together, as far as there is room.
Cache::Promoted Cache::promote(const std::vector<std::uint64_t>& blocks, std::size_t from,
                               const Meanwhile& meanwhile) {
  std::vector<std::vector<kv::CachedBlock>> by_tier(below_.size());
  for (std::size_t i = from; i < blocks.size(); ++i) {
    const auto tier = block_directory_.fastest(blocks[i]);
    if (tier && *tier > 0) by_tier[*tier - 1].push_back(block_at(blocks, i));
  }
  Promoted promoted;
  for (std::size_t tier = 0; tier < below_.size(); ++tier)
    for (kv::Promoted& one : promote(by_tier[tier], below_[tier], meanwhile))
      if (one.block) promoted.emplace(one.block.hash(), one.block);
  return promoted;
}

std::vector<kv::Promoted> Cache::promote(const std::vector<kv::CachedBlock>& blocks,
                                         LowerTiers& from, const Meanwhile& meanwhile) {
  if (blocks.empty()) return {};
  const Instant begin = clock_.now();
  auto promotion = cache_->promote(blocks);
  if (!promotion.ok()) return {};  // too many: one by one then
  while (!promotion->ended()) take_a_turn(meanwhile);
  std::vector<kv::Promoted> all = promotion->take();
  std::uint64_t came = 0;
  for (kv::Promoted& one : all) {
    check_name(one);
    came += one.status.ok();
    if (is_here_or_a_miss(one.status, from.place)) continue;
    ++bad_loads_;
    if (options_.faults > 0) continue;  // reported by tier, in the end
    blame(from.place, one.status);
  }
  found_[from.place] += came;
  if (came > 0) from.up_hop.add(came * block_bytes_, clock_.now() - begin);
  return all;
}

/// By the mistake that was asked for, where that is the disk's.
void Cache::blame(Place place, const Status& status) {
  const bool is_asked_for =
      place == Place::disk && status.code() == Code::corrupt &&
      (options_.inject == Mistake::torn_write || options_.inject == Mistake::short_file);
  faults_.add(
      cat(is_asked_for ? name_of(options_.inject) : name_of(place), ": ", status.to_string()));
}

/// Older replays kept blocks whose digests are not salted with their names.
void Cache::check_name(kv::Promoted& one) {
  if (!one.status.ok() || one.block.identity().digest.salt == one.block.hash()) return;
  const kv::BlockHash hash = one.block.hash();
  one = {{}, error(Code::not_found, cat("what was kept as block ", hex(hash), " has no name"))};
  cache_->drop(hash);
}

/// Empty: it is there no more, or is wrong.
Result<kv::BlockRef> Cache::promote(const kv::CachedBlock& block, const Meanwhile& meanwhile) {
  while (const auto tier = block_directory_.fastest(block.hash)) {
    if (*tier == 0) {  // it came up meanwhile, to be granted
      ++found_[Place::host];
      return cache_->pool().find(block.hash);
    }
    std::vector<kv::Promoted> came = promote({block}, below_[*tier - 1], meanwhile);
    if (came.empty() || came.front().status.code() == Code::exhausted) {
      TOWPATH_TRY(meanwhile.make_room());
      continue;
    }
    return std::move(came.front().block);
  }
  return kv::BlockRef();
}

Result<kv::BlockRef> Cache::produce(const kv::CachedBlock& block, const Meanwhile& meanwhile) {
  ++found_[Place::miss];
  auto slots = cache_->allocate(1);
  for (; slots.code() == Code::exhausted; slots = cache_->allocate(1))
    TOWPATH_TRY(meanwhile.make_room());
  if (!slots.ok()) return slots.status();
  const kv::SlotId slot = slots->front().slot();
  const Instant begin = clock_.now();
  TOWPATH_TRY(const std::uint64_t bytes, fill_block(layout(), block.hash, slot));
  produced_.add(bytes, clock_.now() - begin);
  TOWPATH_TRY(const kv::Digest digest, digest_of_slot(layout(), block.hash, slot));
  return cache_->register_block(kv::CompleteBlock(std::move(slots->front()), {block, digest}));
}

/// Of the blocks that were just made for a request; they are found no more, so that only its decode
/// meets them.
Status Cache::spoil_by_chance(const std::vector<kv::BlockRef>& made) {
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!chance_.strikes()) continue;
    const bool has_neighbour = i + 1 < made.size();
    const Mistake mistake = chance_.spoiling(layout().config(), has_neighbour);
    const kv::BlockRef& other = made[has_neighbour ? i + 1 : i];
    TOWPATH_TRY(spoil(mistake, layout(), made[i].slot(), other.slot()));
    cache_->drop(made[i].hash());
    const bool both = mistake == Mistake::swap_block;
    chance_.made(mistake, both ? 2 : 1);
    if (!both) continue;
    cache_->drop(other.hash());
    ++i;
  }
  return {};
}

/// Once, of blocks that were just made for a request, and are found no more.
Status Cache::spoil_as_asked(const std::vector<kv::BlockRef>& made) {
  if (!spoils_production(options_.inject) || mistake_made_ || made.size() < 2) return {};
  mistake_made_ = true;
  const kv::BlockRef &block = made[made.size() - 2], &other = made.back();
  TOWPATH_TRY(spoil(options_.inject, layout(), block.slot(), other.slot()));
  cache_->drop(block.hash());
  if (options_.inject == Mistake::swap_block) cache_->drop(other.hash());
  return {};
}

/// Once there are some, files on disk lose all but their headers.
Status Cache::cut_as_asked() {
  constexpr std::uint64_t kHeader = kv::kSegmentPage;
  if (options_.inject != Mistake::short_file || mistake_made_ ||
      disk_->store().figures().blocks == 0)
    return {};
  mistake_made_ = true;
  TOWPATH_TRY(const std::vector<std::string> names, files_->list(disk_directory()));
  for (const std::string& name : names) {
    if (!name.starts_with("segment-")) continue;
    TOWPATH_TRY(const auto file,
                files_->open(cat(disk_directory(), "/", name), {.writable = true}));
    TOWPATH_TRY(file->resize(kHeader));
  }
  return {};
}

// Keeping ----------------------------------------------------------------------------------------

// A batch of what waits, or all of it. Tiers go on between two calls while something is left to be
// kept: that is their time, too.
void Cache::demote(bool all) {
  const Instant begin = demotes_since_.value_or(clock_.now());
  if (all)
    (void)cache_->flush();  // what failed is in the figures
  else
    keep_pace();
  const kv::TieredCacheFigures now = cache_->figures();
  for (std::size_t tier = 0; tier < below_.size(); ++tier) {
    LowerTiers& into = below_[tier];
    const std::uint64_t bytes = now.below[tier].demoted_bytes - into.put_bytes;
    if (bytes == 0) continue;
    into.down_hop.add(bytes, clock_.now() - begin);
    into.put_bytes += bytes;
  }
  demotes_since_.reset();
  if (cache_->waiting_demotions() > 0) demotes_since_ = clock_.now();
}

/// An engine computes for longer than a block takes to be written; a replay makes blocks as fast as
/// memory takes them, and nearly all would be evicted before their turn. But not for long: a tier
/// may rest.
void Cache::keep_pace() {
  constexpr Duration kLongest = std::chrono::milliseconds(200);
  const std::size_t most = options_.host_blocks / 4;
  const Instant begin = clock_.now();
  bool moved = cache_->progress();
  while (cache_->waiting_demotions() > most && clock_.now() - begin < kLongest) {
    if (!moved) cache_->wait_for_work(kPause);
    moved = cache_->progress();
  }
}

TierCounts Cache::counts() const {
  TierCounts counts{.held = {}, .found = found_};
  counts.held[Place::host] = cache_->pool().registered();
  if (disk_ != nullptr) counts.held[Place::disk] = disk_->store().figures().blocks;
  if (options_.objects) {
    const auto objects = std::ranges::find(below_, Place::object, &LowerTiers::place);
    const auto room =
        cache_->figures().below[static_cast<std::size_t>(objects - below_.begin())].room;
    counts.held[Place::object] = room ? room->blocks : 0;
  }
  return counts;
}

/// Blocks that are torn on disk, and that nobody has asked for since, are read back: once all that
/// is being written is there, torn or not.
Status Cache::settle() {
  chance_.stop();
  if (faulty_disk_ == nullptr) return {};
  demote(true);
  while (faulty_disk_->has_gets())  // neighbours', which meet what is torn themselves
    if (!cache_->progress()) cache_->wait_for_work(kPause);
  (void)cache_->progress();  // which counts the last of them
  for (const Status& what : faulty_disk_->meet_the_torn(block_bytes_))
    faults_.add(cat(name_of(Mistake::torn_write), ": ", what.message()));
  return {};
}

/// Whether a task of this tier that failed so was reported to.
std::optional<Mistake> mistake_behind(Place place, std::string_view what) {
  if (what.ends_with(": io_error")) return Mistake::tier_fails;
  if (place == Place::disk && what == "get: corrupt") return Mistake::torn_write;
  return std::nullopt;
}

Account Cache::mistakes() const {
  Account account = chance_.account();
  const kv::TieredCacheFigures figures = cache_->figures();
  for (std::size_t tier = 0; tier < below_.size(); ++tier) {
    for (const auto& [what, count] : figures.below[tier].failed)
      if (const auto mistake = mistake_behind(below_[tier].place, what))
        account.of(*mistake).found += count;
  }
  return account;
}

/// "look: unavailable", and why, where the last failure of all tiers was of this kind.
std::string in_full(std::string_view what, const Status& last) {
  const bool is_such = !last.ok() && what.ends_with(cat(": ", name_of(last.code())));
  return is_such ? cat(what, "; the last: ", story_of(last)) : std::string(what);
}

/// What failed in a tier, but for misses and what is reported by block.
void Cache::report_failures(LowerTiers& below, const kv::TierFigures& figures, const Status& last) {
  for (const auto& [what, count] : figures.failed) {
    const std::string reported = cat(name_of(below.place), " tier: ", in_full(what, last));
    const auto mistake = mistake_behind(below.place, what);
    if (options_.faults > 0 && mistake)
      faults_.add(std::string(name_of(*mistake)), count, reported);
    else if (below.place != Place::peers && what != "get: corrupt" && what != "get: not_found")
      faults_.add(cat(name_of(below.place), " tier"), count, reported);
  }
}

void Cache::report(Message& summary) {
  demote(true);  // for the next replay
  produced_.set_path("stores into prefill's pool (a sealed memfd)");
  produced_.put(summary, "produce");
  const kv::TieredCacheFigures figures = cache_->figures();
  for (std::size_t tier = 0; tier < below_.size(); ++tier) {
    LowerTiers& below = below_[tier];
    below.up_hop.set_path(below.where);
    below.up_hop.put(summary, below.up);
    report_failures(below, figures.below[tier], figures.last_failure);
    if (below.down == nullptr) continue;
    below.down_hop.set_path(below.where);
    below.down_hop.put(summary, below.down);
  }
  put_found(summary, found_);
  summary.figures["bad_loads"] = bad_loads_;
  const bool has_torn = chance_.account().of(Mistake::torn_write).made > 0;
  summary.figures["mistake_made"] = mistake_made_ || has_torn ? 1 : 0;
  if (disk_ != nullptr) {
    const std::string refusal = disk_->store().figures().direct_refusal;
    summary.figures["direct"] = options_.direct && refusal.empty() ? 1 : 0;
    if (!refusal.empty()) summary.texts["direct_refusal"] = refusal;
  }
  if (neighbours_) summary.figures["failed_leases"] = neighbours_->failed_leases();
}

}  // namespace towpath::tools::replay
