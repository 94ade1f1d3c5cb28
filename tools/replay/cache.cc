#include "tools/replay/cache.h"

#include <algorithm>

#include <towpath/core/text.h>
#include <towpath/kv/diagnosis.h>
#include <towpath/kv/pattern.h>
#include <towpath/layout/builder.h>
#include <towpath/layout/plan.h>
#include <towpath/memory/shared_region.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/clock.h>

namespace towpath::tools::replay {
namespace {

// Every so many-th block is torn on its way to disk: enough that some come back.
constexpr std::uint64_t kTornEvery = 4;

sys::FileSystem& files() {
  static sys::SystemFileSystem system;  // without state
  return system;
}

}  // namespace

Result<layout::PhysicalLayout> open_host_pool(const layout::LayoutConfig& config,
                                              agent::Agent& agent) {
  TOWPATH_TRY(const layout::Geometry geometry,
              layout::Geometry::make(config, layout::LayoutKind::fully_contiguous));
  TOWPATH_TRY(auto pool, memory::SharedMemoryRegion::create(
                             {.name = "towpath-replay", .size_bytes = geometry.region_bytes}));
  TOWPATH_TRY(auto builder, layout::PhysicalLayoutBuilder(agent)
                                .with_config(config)
                                .fully_contiguous()
                                .with_memory_regions(std::vector{std::move(pool)}));
  return std::move(builder).build();
}

Result<std::uint64_t> fill_block(const layout::PhysicalLayout& layout, kv::BlockHash hash,
                                 kv::SlotId slot) {
  const layout::LayoutConfig& config = layout.config();
  std::uint64_t bytes = 0;
  for (std::uint64_t layer = 0; layer < config.num_layers; ++layer) {
    for (std::uint64_t outer = 0; outer < config.outer_dim; ++outer) {
      TOWPATH_TRY(const ByteSpan page, layout.bytes({slot, layer, outer}));
      kv::fill({.hash = hash,
                .layer = layer,
                .outer = outer,
                .bytes_per_token = page.size() / config.page_size},
               page);
      bytes += page.size();
    }
  }
  return bytes;
}

Result<kv::Digest> digest_of_slot(const layout::PhysicalLayout& layout, kv::BlockHash hash,
                                  kv::SlotId slot) {
  kv::Digester digester(hash);
  return kv::digest_block(digester, layout, slot);
}

Result<std::unique_ptr<Cache>> Cache::open(const Options& options, agent::Agent& agent) {
  TOWPATH_TRY(const layout::LayoutConfig host_config, pool_config(options, options.host_blocks));
  TOWPATH_TRY(layout::PhysicalLayout pool, open_host_pool(host_config, agent));
  TOWPATH_TRY(kv::Tier host, kv::Tier::make("host", std::move(pool), options.policy));
  TOWPATH_TRY(const layout::LayoutConfig disk_config, pool_config(options, options.disk_blocks));
  TOWPATH_TRY(const layout::Geometry geometry,
              layout::Geometry::make(disk_config, layout::LayoutKind::fully_contiguous));
  TOWPATH_TRY(auto file,
              memory::DiskRegion::open(
                  {.path = options.directory + "/",
                   .size_bytes = geometry.region_bytes,
                   .direct = options.direct ? memory::DirectIo::wanted : memory::DirectIo::off,
                   .life = memory::FileLife::nameless},
                  files()));
  TOWPATH_TRY(auto builder, layout::PhysicalLayoutBuilder(agent)
                                .with_config(disk_config)
                                .fully_contiguous()
                                .with_memory_regions(std::vector{file}));
  TOWPATH_TRY(layout::PhysicalLayout layout, std::move(builder).build());
  TOWPATH_TRY(kv::Tier disk, kv::Tier::make("disk", std::move(layout), options.policy));
  return std::unique_ptr<Cache>(
      new Cache(options, agent, std::move(host), std::move(disk), std::move(file)));
}

Result<std::vector<kv::BlockRef>> Cache::gather(const std::vector<std::uint64_t>& blocks,
                                                const Meanwhile& meanwhile) {
  if (blocks.size() > options_.host_blocks) {
    return error(
        Code::exhausted,
        cat("a request of ", blocks.size(), " blocks; the host pool has ", options_.host_blocks),
        "make the pool larger with --host-blocks");
  }
  std::vector<kv::BlockRef> held(blocks.size());
  std::vector<Missing> loading, making;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if ((held[i] = host_.blocks().find(blocks[i]))) {
      ++found_[Place::host];
      continue;
    }
    const auto parent = i > 0 ? std::optional(blocks[i - 1]) : std::nullopt;
    TOWPATH_TRY(kv::PartialBlock slot, reserve(meanwhile.make_room));
    Missing missing{i, {blocks[i], parent}, std::move(slot), disk_.blocks().find(blocks[i])};
    (missing.disk ? loading : making).push_back(std::move(missing));
  }
  TOWPATH_TRY(spill());
  TOWPATH_TRY(load(std::move(loading), held));
  made_.clear();
  for (Missing& missing : making) {
    ++found_[Place::miss];
    kv::BlockRef& block = held[missing.index];
    TOWPATH_TRY(produce(std::move(missing), block));
  }
  TOWPATH_TRY(make_mistake());
  TOWPATH_TRY(spoil_by_chance());
  return held;
}

// A slot for a block that is not in the host pool. What was there is noted for spilling, and is
// written out before anything is written over it.
Result<kv::PartialBlock> Cache::reserve(const std::function<Status()>& make_room) {
  while (true) {
    std::vector<kv::Evicted> evicted;
    auto slots = host_.blocks().allocate(1, &evicted);
    for (const kv::Evicted& block : evicted) TOWPATH_TRY(note_eviction(block));
    if (slots.ok()) return std::move(slots->front());
    if (slots.code() != Code::exhausted) return slots.status();
    TOWPATH_TRY(make_room());
  }
}

Status Cache::note_eviction(const kv::Evicted& evicted) {
  if (disk_.blocks().find(evicted.identity.block.hash))
    return {};  // written before, and unchanged since
  std::vector<kv::Evicted> gone;
  auto there = disk_.blocks().allocate(1, &gone);
  for (const kv::Evicted& one : gone) leave_disk(one.slot);
  if (there.code() == Code::exhausted)
    return {};  // all being read: the block is made anew if wanted
  if (!there.ok()) return there.status();
  spilling_.push_back({evicted.identity, evicted.slot, std::move(there->front())});
  return {};
}

Status Cache::spill() {
  if (spilling_.empty()) return {};
  std::vector<Spill> moves = std::exchange(spilling_, {});
  std::vector<Pair> pairs;
  pairs.reserve(moves.size());
  for (const Spill& move : moves) pairs.push_back({move.host, move.disk.slot()});
  auto written = transfer(TransferOp::write, pairs, spilled_);
  if (!written.ok()) return written.status();
  const std::vector<agent::DescriptorError> errors = written->errors();
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const bool failed =
        std::ranges::any_of(errors, [&](const auto& e) { return e.descriptor == i; }) ||
        (errors.empty() && written->outcome() != Outcome::done);
    if (failed) {
      faults_.add(cat("spill: ", written->status().to_string()));
      continue;
    }
    TOWPATH_TRY(const kv::BlockRef block, disk_.blocks().register_block(kv::CompleteBlock(
                                              std::move(moves[i].disk), moves[i].identity)));
    const kv::BlockHash hash = moves[i].identity.block.hash;
    if (options_.faults > 0) on_disk_[block.slot()] = hash;
    if (chance_.strikes()) {
      TOWPATH_TRY(tear(block.slot()));
      torn_[block.slot()] = hash;
      chance_.made(Mistake::torn_write);
    }
    if (options_.inject != Mistake::torn_write || spills_++ % kTornEvery != 0) continue;
    TOWPATH_TRY(tear(block.slot()));
    mistake_made_ = true;
  }
  return {};
}

Status Cache::load(std::vector<Missing> moves, std::vector<kv::BlockRef>& held) {
  if (moves.empty()) return {};
  if (options_.inject == Mistake::short_file && !mistake_made_) {
    mistake_made_ = true;
    TOWPATH_TRY(file_->file().resize(0));
  }
  TOWPATH_TRY(const std::uint64_t cut_at, cut_by_chance(moves));
  std::vector<Pair> pairs;
  pairs.reserve(moves.size());
  for (const Missing& move : moves) pairs.push_back({move.host.slot(), move.disk.slot()});
  auto read = transfer(TransferOp::read, pairs, loaded_);
  if (!read.ok()) return read.status();
  const std::vector<agent::DescriptorError> errors = read->errors();
  const bool nothing_proven = errors.empty() && read->outcome() != Outcome::done;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const auto failed = std::ranges::find(errors, i, &agent::DescriptorError::descriptor);
    const bool arrived = failed == errors.end() && !nothing_proven;
    kv::BlockRef& block = held[moves[i].index];
    TOWPATH_TRY(settle_load(std::move(moves[i]),
                            arrived          ? Status()
                            : nothing_proven ? read->status()
                                             : failed->status,
                            block));
  }
  return mend(cut_at);
}

// A block came back from disk: it is what its digest says, or it is a miss.
Status Cache::settle_load(Missing move, const Status& read, kv::BlockRef& held) {
  const kv::BlockRef there = std::move(move.disk);
  const kv::BlockHash hash = move.block.hash;
  std::string fault;
  if (!read.ok()) {
    const auto size = file_->file().size();
    const bool is_short = size.ok() && *size < disk_.layout().layout().geometry().region_bytes;
    fault = cat(is_short ? "short-file: " : "unreadable: ", read.message());
  } else {
    TOWPATH_TRY(const kv::Digest found, digest_of_slot(host_.layout(), hash, move.host.slot()));
    if (found != there.identity().digest) {
      const std::string looks = diagnose(hash, move.host.slot());
      const bool is_torn = looks.starts_with("torn");
      fault = cat(is_torn ? "torn-write: " : "disk: ", "block ", hex(hash),
                  " came back from disk with another digest; ", looks);
    }
  }
  const bool was_torn = torn_.contains(there.slot());
  if (was_torn && !fault.empty()) torn_.erase(there.slot());
  if (was_torn && fault.starts_with("short-file")) chance_.gone(Mistake::torn_write);
  if (fault.empty()) {
    ++found_[Place::disk];
    TOWPATH_TRY(held, host_.blocks().register_block(kv::CompleteBlock(
                          std::move(move.host), {move.block, there.identity().digest})));
    return {};
  }
  ++bad_loads_;
  ++found_[Place::miss];
  faults_.add(fault);
  disk_.quarantine(hash, fault.substr(0, fault.find(':')));
  on_disk_.erase(there.slot());
  return produce(std::move(move), held);
}

Status Cache::produce(Missing missing, kv::BlockRef& held) {
  const kv::SlotId slot = missing.host.slot();
  const kv::BlockHash hash = missing.block.hash;
  sys::SystemClock clock;
  const Instant begin = clock.now();
  TOWPATH_TRY(const std::uint64_t bytes, fill_block(host_.layout(), hash, slot));
  produced_.add(bytes, clock.now() - begin);
  TOWPATH_TRY(const kv::Digest digest, digest_of_slot(host_.layout(), hash, slot));
  TOWPATH_TRY(held, host_.blocks().register_block(
                        kv::CompleteBlock(std::move(missing.host), {missing.block, digest})));
  made_.push_back({slot, hash});
  return {};
}

Status Cache::make_mistake() {
  const bool wants = spoils_production(options_.inject) && !mistake_made_ && made_.size() >= 2;
  if (!wants) return {};
  mistake_made_ = true;
  return spoil(options_.inject, host_.layout(), made_[made_.size() - 2].slot, made_.back().slot);
}

Result<agent::Transfer> Cache::transfer(TransferOp op, const std::vector<Pair>& moves, Hop& hop) {
  const std::uint64_t bytes = host_.layout().layout().geometry().block_stride;
  DescriptorList here(MemoryKind::system);
  DescriptorList there(MemoryKind::disk);
  for (const Pair& move : moves) {
    TOWPATH_TRY(const layout::Extent host, host_.layout().memory_region({move.host, 0, 0}));
    TOWPATH_TRY(const layout::Extent disk, disk_.layout().memory_region({move.disk, 0, 0}));
    TOWPATH_TRY(here.add(Descriptor{host.address, bytes, host_.layout().location().device_id}));
    TOWPATH_TRY(there.add(Descriptor{disk.address, bytes, disk_.layout().location().device_id}));
  }
  TOWPATH_TRY(agent::Transfer made, agent_.create_transfer(op, here, agent_.name(), there));
  TOWPATH_TRY(made.post({.timeout = options_.timeout, .notification = {}}));
  made.wait();
  TOWPATH_TRY(hop.add(made));
  return made;
}

std::string Cache::diagnose(kv::BlockHash hash, kv::SlotId slot) const {
  const layout::PhysicalLayout& layout = host_.layout();
  const layout::LayoutConfig& config = layout.config();
  const kv::BlockShape shape{config.num_layers, config.outer_dim, config.page_size,
                             config.inner_dim * config.dtype_width_bytes};
  return kv::diagnose(hash, shape,
                      [&](std::uint64_t layer, std::uint64_t outer) {
                        return ConstByteSpan(*layout.bytes({slot, layer, outer}));
                      },
                      {});
}

TierCounts Cache::counts() const {
  TierCounts counts{.held = {}, .found = found_};
  counts.held[Place::host] = host_.blocks().registered();
  counts.held[Place::disk] = disk_.blocks().registered();
  return counts;
}

void Cache::report(Message& summary) {
  Hop produced = produced_;
  produced.set_path("stores into prefill's pool (a sealed memfd)");
  produced.put(summary, "produce");
  spilled_.put(summary, "spill");
  loaded_.put(summary, "load");
  put_found(summary, found_);
  summary.figures["bad_loads"] = bad_loads_;
  summary.figures["direct"] = file_->direct() ? 1 : 0;
  summary.figures["mistake_made"] = mistake_made_ ? 1 : 0;
  if (!file_->direct_refusal().empty()) summary.texts["direct_refusal"] = file_->direct_refusal();
}

}  // namespace towpath::tools::replay
