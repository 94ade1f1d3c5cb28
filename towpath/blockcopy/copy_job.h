// CopyJob: one copy of blocks between two layouts, cut into chunks that move one behind the other.
//
//   chunk      blocks of a few layers      waiting -> first hop -> (second hop) -> in place
//
// A job that was asked to stop starts nothing more; it has ended when all that is under way is
// quiet. A chunk that fails does not stop the others: what is not in place is reported by blocks.
// A job ends exactly once, with one outcome. It holds slots of the bounce pool only while a chunk
// is under way. Thread: loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <towpath/blockcopy/copy_times.h>
#include <towpath/blockcopy/hop.h>
#include <towpath/core/result.h>
#include <towpath/core/transfer_state.h>
#include <towpath/layout/selection.h>
#include <towpath/memory/device_region.h>
#include <towpath/memory/registrar.h>

namespace towpath::blockcopy {

/// The bounce buffers of a transfer manager: one registered region in equal slots.
///
/// It is bounded: without a free slot take() gives nothing, and the work waits. That is the back
/// pressure of two-hop transfers.
/// Invariants: a slot is held by one user; the pool outlives its slots. Thread: loop.
class BouncePool {
 public:
  /// Memory registered with `registrar`, which outlives the pool: pinned for `device` where there
  /// is one and it can be had, else system memory. `slot_bytes` is rounded up to pages. Errors:
  /// invalid_argument (sizes, less than 2 slots), exhausted, or Registrar::register_region's.
  static Result<BouncePool> create(std::uint64_t slots, std::uint64_t slot_bytes,
                                   memory::Registrar& registrar,
                                   const memory::SharedDevice& device = nullptr);

  /// The index of a free slot, or nothing.
  std::optional<std::uint64_t> take();
  void give_back(std::uint64_t slot) { free_.push_back(slot); }

  std::uint64_t slot_bytes() const noexcept { return slot_bytes_; }
  std::uint64_t slots() const noexcept { return slots_; }
  std::uint64_t in_use() const noexcept { return slots_ - free_.size(); }
  /// The most that ever were.
  std::uint64_t peak() const noexcept { return peak_; }
  bool is_pinned() const { return region_->kind() == MemoryKind::pinned; }
  const memory::SharedRegion& region() const noexcept { return region_; }

 private:
  BouncePool(memory::SharedRegion region, std::uint64_t slots, std::uint64_t slot_bytes);

  memory::SharedRegion region_;
  std::uint64_t slot_bytes_;
  std::uint64_t slots_;
  std::uint64_t peak_ = 0;
  std::vector<std::uint64_t> free_;
};

struct CopyChunk {
  std::vector<layout::BlockRange> blocks;
  std::uint64_t block_count = 0;
  layout::IndexRange layers;
};

struct ChunkLimits {
  std::uint64_t bytes = 0;        ///< of a chunk; at least one layer of one block is taken
  std::uint64_t layer_bytes = 0;  ///< of one layer of one block
  bool layer_by_layer = false;    ///< a chunk never has two layers
  bool whole_blocks = false;      ///< a chunk has all layers of its blocks, however many bytes
};
/// All layers of as many blocks as fit; where one block does not, as many of its layers. Layers in
/// their order; blocks in that of `blocks`, neighbours together.
std::vector<CopyChunk> cut_chunks(std::span<const layout::BlockRange> blocks,
                                  layout::IndexRange layers, const ChunkLimits& limits);

struct CopyJobParts {
  CopySide source;  ///< views cut to what both have
  CopySide target;
  Route route;
  std::vector<CopyChunk> chunks;
  Instant deadline = Instant::never();
  std::size_t most_chunks = SIZE_MAX;  ///< under way at once
  std::function<void(std::uint64_t layer)> on_layer;
  std::function<void(const layout::BlockRange& blocks)> on_blocks;  ///< chunks are of whole blocks
  std::optional<CopyTrial> trial{};  ///< it is one: its time is wanted
};

class CopyJob {
 public:
  explicit CopyJob(CopyJobParts parts);

  /// Whether it has a chunk to start now, if it gets a slot where it needs one.
  bool is_waiting() const {
    return outcome_ == Outcome::none && !waiting_.empty() && active_.size() < parts_.most_chunks;
  }
  bool needs_slot() const { return parts_.route.has_two_hops(); }
  /// Starts the next chunk. `slot`: of the pool, where needs_slot().
  void start(const HopTools& tools, BouncePool& pool, std::optional<std::uint64_t> slot,
             Instant now);
  /// Looks at what is under way; frees slots; begins second hops. True: something went on.
  bool poll(const HopTools& tools, BouncePool& pool, Instant now);
  /// Fixes the outcome, unless it is decided. Ends when quiet.
  void stop(Outcome outcome, Status status);

  bool has_ended() const { return ended_; }
  bool needs_polling() const;
  std::size_t under_way() const { return active_.size(); }
  Instant deadline() const { return parts_.deadline; }

  TransferState state() const;
  Outcome outcome() const { return outcome_; }
  const Status& status() const { return status_; }
  const Route& route() const { return parts_.route; }
  const std::optional<CopyTrial>& trial() const { return parts_.trial; }
  /// From its first chunk's start to its end; nothing before, or where it had no chunk.
  std::optional<Duration> took() const { return took_; }
  std::uint64_t chunks() const { return chunks_; }
  std::uint64_t bytes_in_place() const { return bytes_in_place_; }
  /// Whether all of a layer is in place; the numbers are those of the request.
  bool is_layer_done(std::uint64_t layer) const;
  /// Blocks of which not everything is in place, each once, in the order of targets. Of a job that
  /// ended.
  const std::vector<layout::BlockRange>& not_in_place() const { return not_in_place_; }

 private:
  struct Active {
    CopyChunk chunk;
    std::optional<std::uint64_t> slot;
    std::unique_ptr<Hop> hop;
    bool is_first = true;
    bool is_over = false;
  };

  Result<std::unique_ptr<Hop>> begin(const Active& active, const HopTools& tools, BouncePool& pool,
                                     Instant now) const;
  Result<CopySide> bounce_side(const Active& active, const BouncePool& pool) const;
  /// True: the chunk is still under way, with its second hop.
  bool go_on(Active& active, const HopTools& tools, BouncePool& pool, Instant now);
  void succeed(const CopyChunk& chunk);
  void fail(const CopyChunk& chunk, Status status);
  void finish_if_quiesced();

  CopyJobParts parts_;
  std::deque<CopyChunk> waiting_;
  std::vector<Active> active_;
  layout::IndexRange layers_;
  std::vector<std::uint64_t> chunks_left_;  // of each layer
  std::uint64_t chunks_ = 0;
  std::uint64_t bytes_in_place_ = 0;
  std::vector<layout::BlockRange> not_in_place_;
  Outcome outcome_ = Outcome::none;
  Status status_;
  bool ended_ = false;
  std::optional<Instant> begun_;
  std::optional<Duration> took_;
};

}  // namespace towpath::blockcopy
