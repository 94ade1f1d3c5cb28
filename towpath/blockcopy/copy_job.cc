#include <algorithm>
#include <utility>

#include <towpath/blockcopy/copy_job.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/pinned_region.h>
#include <towpath/memory/registered.h>
#include <towpath/memory/system_region.h>

namespace towpath::blockcopy {
namespace {

constexpr std::uint64_t kPage = 4096;

template <class Region>
Result<memory::SharedRegion> registered(Result<std::shared_ptr<Region>> memory,
                                        memory::Registrar& registrar) {
  TOWPATH_TRY(std::shared_ptr<Region> made, std::move(memory));
  TOWPATH_TRY(memory::Registered<Region> with, memory::register_with(std::move(made), registrar));
  return std::make_shared<memory::Registered<Region>>(std::move(with));
}

using layout::Axis;
using layout::BlockRange;
using layout::IndexRange;
using layout::TensorView;

/// Cuts a list of ranges into lists of at most `most` blocks.
std::vector<CopyChunk> cut_blocks(std::span<const BlockRange> blocks, std::uint64_t most) {
  std::vector<CopyChunk> chunks;
  for (BlockRange left : blocks) {
    while (left.count > 0) {
      if (chunks.empty() || chunks.back().block_count == most) chunks.emplace_back();
      CopyChunk& chunk = chunks.back();
      const std::uint64_t taken = std::min(left.count, most - chunk.block_count);
      chunk.blocks.push_back({left.source_first, left.target_first, taken});
      chunk.block_count += taken;
      left = {left.source_first + taken, left.target_first + taken, left.count - taken};
    }
  }
  return chunks;
}

/// The blocks of a chunk as they stand in a bounce slot: one behind the other from 0 on.
std::vector<BlockRange> bounced(const CopyChunk& chunk, bool is_first) {
  std::vector<BlockRange> ranges;
  std::uint64_t position = 0;
  for (const BlockRange& range : chunk.blocks) {
    ranges.push_back(is_first ? BlockRange{range.source_first, position, range.count}
                              : BlockRange{position, range.target_first, range.count});
    position += range.count;
  }
  return ranges;
}

/// Each block once, neighbours together: layers of one block may have failed apart.
std::vector<BlockRange> united(std::vector<BlockRange> ranges) {
  std::ranges::sort(ranges, {}, &BlockRange::target_first);
  std::vector<BlockRange> out;
  for (const BlockRange& next : ranges) {
    const std::uint64_t distance = out.empty() ? 0 : next.target_first - out.back().target_first;
    const bool goes_on = !out.empty() && distance <= out.back().count &&
                         next.source_first == out.back().source_first + distance;
    if (goes_on)
      out.back().count = std::max(out.back().count, distance + next.count);
    else
      out.push_back(next);
  }
  return out;
}

/// The order of bytes in a slot is that of the side which is the dearest to reach in pieces.
const CopySide& dearest(const CopySide& source, const CopySide& target) {
  return source.end > target.end ? source : target;
}

}  // namespace

Result<BouncePool> BouncePool::create(std::uint64_t slots, std::uint64_t slot_bytes,
                                      memory::Registrar& registrar,
                                      const memory::SharedDevice& device) {
  const auto slot = align_up(slot_bytes, kPage);
  const auto total = slot ? checked_multiply(*slot, slots) : std::nullopt;
  if (slot_bytes == 0 || slots < 2 || !total)
    return error(Code::invalid_argument, cat(slots, " bounce slots of ", slot_bytes, " bytes"),
                 "use at least 2 slots of at least a page of one layer of one block");
  if (device != nullptr)
    if (auto pinned = registered(memory::PinnedRegion::allocate(device, *total), registrar);
        pinned.ok())
      return BouncePool(*std::move(pinned), slots, *slot);
  TOWPATH_TRY(auto plain, registered(memory::SystemRegion::allocate(*total), registrar));
  return BouncePool(std::move(plain), slots, *slot);
}

BouncePool::BouncePool(memory::SharedRegion region, std::uint64_t slots, std::uint64_t slot_bytes)
    : region_(std::move(region)), slot_bytes_(slot_bytes), slots_(slots) {
  for (std::uint64_t slot = slots_; slot > 0; --slot) free_.push_back(slot - 1);
}

std::optional<std::uint64_t> BouncePool::take() {
  if (free_.empty()) return std::nullopt;
  const std::uint64_t slot = free_.back();
  free_.pop_back();
  peak_ = std::max(peak_, in_use());
  return slot;
}

std::vector<CopyChunk> cut_chunks(std::span<const BlockRange> blocks, IndexRange layers,
                                  const ChunkLimits& limits) {
  if (layers.count == 0) return {};
  const std::uint64_t fitting = std::max<std::uint64_t>(limits.bytes / limits.layer_bytes, 1);
  const std::uint64_t most = limits.whole_blocks ? layers.count : fitting;
  const std::uint64_t together =
      limits.layer_by_layer ? 1 : std::min<std::uint64_t>(layers.count, most);
  const std::vector<CopyChunk> pieces =
      cut_blocks(blocks, std::max<std::uint64_t>(fitting / together, 1));
  std::vector<CopyChunk> chunks;
  for (std::uint64_t done = 0; done < layers.count; done += together)
    for (CopyChunk chunk : pieces) {
      chunk.layers = {layers.first + done, std::min(together, layers.count - done)};
      chunks.push_back(std::move(chunk));
    }
  return chunks;
}

CopyJob::CopyJob(CopyJobParts parts)
    : parts_(std::move(parts)),
      waiting_(parts_.chunks.begin(), parts_.chunks.end()),
      layers_(parts_.source.view.range(Axis::layer)),
      chunks_left_(layers_.count),
      chunks_(waiting_.size()) {
  for (const CopyChunk& chunk : waiting_)
    for (std::uint64_t i = 0; i < chunk.layers.count; ++i)
      ++chunks_left_[chunk.layers.first - layers_.first + i];
  finish_if_quiesced();  // nothing to do is done
}

Result<CopySide> CopyJob::bounce_side(const Active& active, const BouncePool& pool) const {
  TOWPATH_TRY(const TensorView far,
              dearest(parts_.source, parts_.target).view.slice(Axis::layer, active.chunk.layers));
  const RegionDescriptor memory = pool.region()->descriptor();
  const std::uint64_t offset = *active.slot * pool.slot_bytes() * 8 / far.element_bits();
  TOWPATH_TRY(const TensorView view,
              packed_like(far, active.chunk.block_count, offset, memory.length));
  return CopySide{.view = view,
                  .location = {.kind = memory.kind, .device_id = memory.device_id},
                  .agent = {},
                  .end = RouteEnd::host,
                  .regions = {{memory.address, memory.length}},
                  .bytes = {pool.region()->bytes()},
                  .keep = {}};
}

Result<std::unique_ptr<Hop>> CopyJob::begin(const Active& active, const HopTools& tools,
                                            BouncePool& pool, Instant now) const {
  const bool is_first = active.is_first;
  const CopySide* source = &parts_.source;
  const CopySide* target = &parts_.target;
  std::optional<CopySide> bounce;
  if (active.slot) {
    TOWPATH_TRY(bounce, bounce_side(active, pool));
    (is_first ? target : source) = &*bounce;
  }
  const IndexRange layers = active.chunk.layers;
  TOWPATH_TRY(const TensorView read, source->view.slice(Axis::layer, layers));
  TOWPATH_TRY(const TensorView written, target->view.slice(Axis::layer, layers));
  const std::vector<BlockRange> blocks =
      active.slot ? bounced(active.chunk, is_first) : active.chunk.blocks;
  TOWPATH_TRY(const layout::BoxPlan plan, plan_boxes(read, written, blocks));
  return start_hop({.mover = is_first ? parts_.route.first : parts_.route.second,
                    .source = *source,
                    .target = *target,
                    .plan = plan,
                    .timeout = parts_.deadline - now},
                   tools);
}

void CopyJob::start(const HopTools& tools, BouncePool& pool, std::optional<std::uint64_t> slot,
                    Instant now) {
  if (!begun_) begun_ = now;
  Active active{.chunk = std::move(waiting_.front()), .slot = slot, .hop = nullptr};
  waiting_.pop_front();
  auto hop = begin(active, tools, pool, now);
  if (hop.ok()) {
    active.hop = *std::move(hop);
    active_.push_back(std::move(active));
    return;
  }
  if (slot) pool.give_back(*slot);
  fail(active.chunk, hop.status());
  finish_if_quiesced();
}

bool CopyJob::go_on(Active& active, const HopTools& tools, BouncePool& pool, Instant now) {
  Status status = active.hop->status();
  if (status.ok() && active.is_first && needs_slot() && outcome_ == Outcome::none) {
    active.is_first = false;
    auto hop = begin(active, tools, pool, now);
    if (hop.ok()) {
      active.hop = *std::move(hop);
      return true;
    }
    status = hop.status();
  } else if (status.ok() && active.is_first && needs_slot()) {
    status = error(Code::cancelled, "stopped between its two hops", "copy these blocks again");
  }
  if (active.slot) pool.give_back(*active.slot);
  if (status.ok())
    succeed(active.chunk);
  else
    fail(active.chunk, std::move(status));
  return false;
}

bool CopyJob::poll(const HopTools& tools, BouncePool& pool, Instant now) {
  if (now >= parts_.deadline)
    stop(Outcome::timed_out, error(Code::timed_out, cat("blocks from ", to_string(parts_.route)),
                                   "give the copy more time, or copy fewer blocks at once"));
  bool moved = false;
  // Each stays where it is until all were asked: what is reported of one may cancel the others.
  for (Active& active : active_) {
    if (!active.hop->has_ended()) continue;
    moved = true;
    active.is_over = !go_on(active, tools, pool, now);
  }
  std::erase_if(active_, [](const Active& active) { return active.is_over; });
  finish_if_quiesced();
  if (ended_ && begun_) took_ = now - *begun_;
  return moved;
}

void CopyJob::stop(Outcome outcome, Status status) {
  if (outcome_ != Outcome::none) return;
  outcome_ = outcome;
  status_ = std::move(status);
  for (const CopyChunk& chunk : std::exchange(waiting_, {})) fail(chunk, {});
  for (Active& active : active_) active.hop->cancel();
  finish_if_quiesced();
}

void CopyJob::succeed(const CopyChunk& chunk) {
  const TensorView& view = parts_.source.view;
  const std::uint64_t of_layer = view.bytes() / view[Axis::block].extent / layers_.count;
  bytes_in_place_ += of_layer * chunk.block_count * chunk.layers.count;
  for (std::uint64_t i = 0; i < chunk.layers.count; ++i) {
    const std::uint64_t layer = chunk.layers.first + i;
    if (--chunks_left_[layer - layers_.first] == 0 && parts_.on_layer) parts_.on_layer(layer);
  }
  if (parts_.on_blocks) std::ranges::for_each(chunk.blocks, parts_.on_blocks);
}

void CopyJob::fail(const CopyChunk& chunk, Status status) {
  not_in_place_.insert(not_in_place_.end(), chunk.blocks.begin(), chunk.blocks.end());
  if (status_.ok()) status_ = std::move(status);
}

void CopyJob::finish_if_quiesced() {
  if (ended_ || !waiting_.empty() || !active_.empty()) return;
  ended_ = true;
  not_in_place_ = united(std::move(not_in_place_));
  if (outcome_ != Outcome::none) return;
  if (status_.ok())
    outcome_ = Outcome::done;
  else
    outcome_ = status_.code() == Code::peer_lost ? Outcome::peer_lost : Outcome::failed;
}

bool CopyJob::needs_polling() const {
  return std::ranges::any_of(active_, [](const Active& a) { return a.hop->needs_polling(); });
}

TransferState CopyJob::state() const {
  if (ended_) return TransferState::ended;
  return outcome_ == Outcome::none ? TransferState::active : TransferState::draining;
}

bool CopyJob::is_layer_done(std::uint64_t layer) const {
  return layer >= layers_.first && layer - layers_.first < layers_.count &&
         chunks_left_[layer - layers_.first] == 0;
}

}  // namespace towpath::blockcopy
