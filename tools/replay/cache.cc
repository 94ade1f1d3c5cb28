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

Result<kv::Tier> open_host(const layout::LayoutConfig& config, agent::Agent& agent,
                           kv::PolicyKind policy) {
  TOWPATH_TRY(const layout::Geometry geometry,
              layout::Geometry::make(config, layout::LayoutKind::fully_contiguous));
  TOWPATH_TRY(auto pool, memory::SharedMemoryRegion::create(
                             {.name = "towpath-replay", .size_bytes = geometry.region_bytes}));
  TOWPATH_TRY(auto builder, layout::PhysicalLayoutBuilder(agent)
                                .with_config(config)
                                .fully_contiguous()
                                .with_memory_regions(std::vector{std::move(pool)}));
  TOWPATH_TRY(layout::PhysicalLayout layout, std::move(builder).build());
  return kv::Tier::make("host", std::move(layout), policy);
}

sys::FileSystem& files() {
  static sys::SystemFileSystem system;  // without state
  return system;
}

}  // namespace

Result<std::unique_ptr<Cache>> Cache::open(const Options& options, agent::Agent& agent) {
  TOWPATH_TRY(const layout::LayoutConfig host_config, pool_config(options, options.host_blocks));
  TOWPATH_TRY(kv::Tier host, open_host(host_config, agent, options.policy));
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

Result<std::vector<kv::SlotId>> Cache::gather(const std::vector<std::uint64_t>& blocks,
                                              const std::function<Status()>& make_room) {
  if (blocks.size() > host_.slots().capacity()) {
    return error(Code::exhausted,
                 cat("a request of ", blocks.size(), " blocks; the host pool has ",
                     host_.slots().capacity()),
                 "make the pool larger with --host-blocks");
  }
  std::vector<kv::SlotId> slots(blocks.size());
  std::vector<Move> loading;
  std::vector<std::pair<kv::BlockHash, kv::SlotId>> making;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const kv::BlockHash hash = blocks[i];
    if (const auto slot = host_.slots().find(hash)) {
      ++host_hits_;
      slots[i] = *slot;
    } else {
      const auto parent = i > 0 ? std::optional(blocks[i - 1]) : std::nullopt;
      TOWPATH_TRY(slots[i], reserve({hash, parent}, make_room));
      if (const auto on_disk = disk_.slots().find(hash)) {
        loading.push_back({hash, slots[i], *on_disk, disk_.slots().digest(*on_disk)});
        disk_.slots().pin(*on_disk);
      } else {
        making.emplace_back(hash, slots[i]);
      }
    }
    host_.slots().pin(slots[i]);
  }
  TOWPATH_TRY(spill());
  TOWPATH_TRY(load(std::move(loading)));
  made_.clear();
  for (const auto& [hash, slot] : making) {
    ++misses_;
    TOWPATH_TRY(produce(hash, slot));
  }
  TOWPATH_TRY(make_mistake());
  return slots;
}

// A slot for a block that is not in the host pool. What was there is noted for spilling, and is
// written out before anything is written over it.
Result<kv::SlotId> Cache::reserve(const kv::CachedBlock& block,
                                  const std::function<Status()>& make_room) {
  while (true) {
    auto reserved = host_.slots().reserve(block);
    if (reserved.ok()) {
      if (reserved->evicted) TOWPATH_TRY(note_eviction(*reserved->evicted));
      return reserved->slot;
    }
    if (reserved.code() != Code::exhausted) return reserved.status();
    TOWPATH_TRY(make_room());
  }
}

Status Cache::note_eviction(const kv::Evicted& evicted) {
  if (disk_.slots().find(evicted.block.hash)) return {};  // written before, and unchanged since
  auto there = disk_.slots().reserve(evicted.block);
  if (there.code() == Code::exhausted)
    return {};  // all being read: the block is made anew if wanted
  if (!there.ok()) return there.status();
  spilling_.push_back({evicted.block.hash, evicted.slot, there->slot, evicted.digest});
  return {};
}

Status Cache::spill() {
  if (spilling_.empty()) return {};
  const std::vector<Move> moves = std::exchange(spilling_, {});
  auto written = transfer(TransferOp::write, moves, spilled_);
  if (!written.ok()) return written.status();
  const std::vector<agent::DescriptorError> errors = written->errors();
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const bool failed =
        std::ranges::any_of(errors, [&](const auto& e) { return e.descriptor == i; }) ||
        (errors.empty() && written->outcome() != Outcome::done);
    if (failed) {
      disk_.slots().abandon(moves[i].disk);
      faults_.add(cat("spill: ", written->status().to_string()));
      continue;
    }
    disk_.slots().publish(moves[i].disk, moves[i].digest);
    if (options_.inject != Mistake::torn_write || spills_++ % kTornEvery != 0) continue;
    // The second half never arrived.
    TOWPATH_TRY(const layout::Extent extent, disk_.layout().memory_region({moves[i].disk, 0, 0}));
    const std::uint64_t stride = disk_.layout().layout().geometry().block_stride;
    TOWPATH_TRY(const auto zeros, memory::SystemRegion::allocate(stride / 2));
    TOWPATH_TRY(sys::write_exactly(file_->file(), zeros->bytes(), extent.address + stride / 2));
    mistake_made_ = true;
  }
  return {};
}

Status Cache::load(std::vector<Move> moves) {
  if (moves.empty()) return {};
  if (options_.inject == Mistake::short_file && !mistake_made_) {
    mistake_made_ = true;
    TOWPATH_TRY(file_->file().resize(0));
  }
  auto read = transfer(TransferOp::read, moves, loaded_);
  if (!read.ok()) return read.status();
  const std::vector<agent::DescriptorError> errors = read->errors();
  const bool nothing_proven = errors.empty() && read->outcome() != Outcome::done;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const auto failed = std::ranges::find(errors, i, &agent::DescriptorError::descriptor);
    const bool arrived = failed == errors.end() && !nothing_proven;
    TOWPATH_TRY(settle_load(moves[i], arrived          ? Status()
                                      : nothing_proven ? read->status()
                                                       : failed->status));
  }
  return {};
}

// A block came back from disk: it is what its digest says, or it is a miss.
Status Cache::settle_load(const Move& move, const Status& read) {
  disk_.slots().unpin(move.disk);
  std::string fault;
  if (!read.ok()) {
    const auto size = file_->file().size();
    const bool is_short = size.ok() && *size < disk_.layout().layout().geometry().region_bytes;
    fault = cat(is_short ? "short-file: " : "unreadable: ", read.message());
  } else {
    TOWPATH_TRY(const kv::Digest found, kv::digest_block(digester_, host_.layout(), move.host));
    if (found != move.digest) {
      const std::string looks = diagnose(move.hash, move.host);
      const bool is_torn = looks.starts_with("torn");
      fault = cat(is_torn ? "torn-write: " : "disk: ", "block ", hex(move.hash),
                  " came back from disk with another digest; ", looks);
    }
  }
  if (fault.empty()) {
    ++disk_hits_;
    host_.slots().publish(move.host, move.digest);
    return {};
  }
  ++bad_loads_;
  ++misses_;
  faults_.add(fault);
  disk_.quarantine(move.disk, fault.substr(0, fault.find(':')));
  return produce(move.hash, move.host);
}

Status Cache::produce(kv::BlockHash hash, kv::SlotId slot) {
  sys::SystemClock clock;
  const Instant begin = clock.now();
  const layout::LayoutConfig& config = host_.layout().config();
  std::uint64_t bytes = 0;
  for (std::uint64_t layer = 0; layer < config.num_layers; ++layer) {
    for (std::uint64_t outer = 0; outer < config.outer_dim; ++outer) {
      TOWPATH_TRY(const ByteSpan page, host_.layout().bytes({slot, layer, outer}));
      kv::fill({.hash = hash,
                .layer = layer,
                .outer = outer,
                .bytes_per_token = page.size() / config.page_size},
               page);
      bytes += page.size();
    }
  }
  produced_.add(bytes, clock.now() - begin);
  TOWPATH_TRY(const kv::Digest digest, kv::digest_block(digester_, host_.layout(), slot));
  host_.slots().publish(slot, digest);
  made_.push_back(slot);
  return {};
}

Status Cache::make_mistake() {
  const bool wants = spoils_production(options_.inject) && !mistake_made_ && made_.size() >= 2;
  if (!wants) return {};
  mistake_made_ = true;
  return spoil(options_.inject, host_.layout(), made_[made_.size() - 2], made_.back());
}

Result<agent::Transfer> Cache::transfer(TransferOp op, const std::vector<Move>& moves, Hop& hop) {
  const std::uint64_t bytes = host_.layout().layout().geometry().block_stride;
  DescriptorList here(MemoryKind::system);
  DescriptorList there(MemoryKind::disk);
  for (const Move& move : moves) {
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

void Cache::unpin(const std::vector<kv::SlotId>& slots) {
  for (const kv::SlotId slot : slots) host_.slots().unpin(slot);
}

TierCounts Cache::counts() const {
  return {.host_blocks = host_.slots().ready(),
          .disk_blocks = disk_.slots().ready(),
          .host_hits = host_hits_,
          .disk_hits = disk_hits_,
          .misses = misses_};
}

void Cache::report(Message& summary) const {
  Hop produced = produced_;
  produced.set_path("stores into prefill's pool (a sealed memfd)");
  produced.put(summary, "produce");
  spilled_.put(summary, "spill");
  loaded_.put(summary, "load");
  summary.figures["host_hits"] = host_hits_;
  summary.figures["disk_hits"] = disk_hits_;
  summary.figures["misses"] = misses_;
  summary.figures["bad_loads"] = bad_loads_;
  summary.figures["direct"] = file_->direct() ? 1 : 0;
  summary.figures["mistake_made"] = mistake_made_ ? 1 : 0;
  if (!file_->direct_refusal().empty()) summary.texts["direct_refusal"] = file_->direct_refusal();
}

}  // namespace towpath::tools::replay
