// Flight: one transfer on its way through the simulated network.
//
// It has its own copy of the segments, so that it can go on when nobody looks any more, as a
// network card does. It moves bytes only in step(), a torn-off piece at a time, in order; which
// piece fails is decided by the network's random numbers.
// Invariant: an extent is counted as in place, or is in `failures`, or lies behind the cursor.
// Thread: guarded by the network's mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backend/memory_table.h>
#include <towpath/backend/segment_cursor.h>
#include <towpath/backends/sim/behaviour.h>
#include <towpath/backends/sim/random.h>

namespace towpath::backends::sim {

/// A registration that both sides of the network know.
struct Record : backend::RegisteredRegion {
  using RegisteredRegion::RegisteredRegion;
  bool closed = false;  ///< peers do not reach it any more
  bool freed = false;   ///< its owner let go of it: nobody may touch it
};

/// What registering or importing gives.
class SimMemory : public backend::Memory {
 public:
  explicit SimMemory(std::shared_ptr<Record> of) : record(std::move(of)) {}
  const std::shared_ptr<Record> record;
};

class Flight {
 public:
  enum class State {
    flying,
    arrived,  ///< over; its owner was not reported yet
    reported,
  };

  Flight(backend::Operation& of, const backend::Request& request);

  /// Moves about a piece, or fails extents. Nothing when at_end().
  void step(const Behaviour& behaviour, Random& random);
  bool at_end() const noexcept { return cursor_.done(); }
  /// Ends it; a failure replaces what step() found.
  void finish(Status status);
  backend::Completion completion() const { return {status_, bytes_, failures_}; }

  backend::Operation& operation;
  const backend::Connection* const connection;
  State state = State::flying;
  bool silent = false;     ///< never answers by itself
  bool cancelled = false;  ///< asked to stop

 private:
  void move_piece(const Behaviour& behaviour, Random& random);
  void fail_extent(Status why);

  const TransferOp op_;
  std::vector<backend::Segment> segments_;
  std::vector<std::shared_ptr<Record>> local_, remote_;  // of each segment
  backend::SegmentCursor cursor_;
  std::uint64_t bytes_ = 0;
  std::uint64_t failed_ = 0;
  std::vector<backend::SegmentFailure> failures_;
  Status status_;
};

}  // namespace towpath::backends::sim
