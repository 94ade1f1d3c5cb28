// Stream: what a recording of transfers (tools/recording.h) comes to when it is repeated between
// two processes: moves of so many bytes, in so many runs with gaps between them, each at its time.
// A value: nothing is moved here.
//
// A recording knows how many runs a transfer had, not how long each was: they are made of one
// length, which rounds its bytes up to a multiple of its runs. All memory is the host's, whatever
// kind the recorded one was.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tools/recording.h"

namespace towpath::tools::replay {

struct Stream {
  struct Move {
    Duration at{0};  ///< from the first move on
    TransferOp op = TransferOp::read;
    std::uint64_t run_bytes = 0;
    std::uint64_t stride = 0;  ///< from run to run; more than run_bytes where there is a gap
    std::uint64_t runs = 1;
    Duration took{0};  ///< when it was recorded; 0: it had not ended

    std::uint64_t bytes() const noexcept { return run_bytes * runs; }
    std::uint64_t area_bytes() const noexcept { return stride * runs; }
    friend bool operator==(const Move&, const Move&) = default;
  };

  std::vector<Move> moves;           ///< by time
  std::uint64_t recorded_bytes = 0;  ///< before rounding
  std::uint64_t nodes = 0;           ///< that posted them
  std::uint64_t own = 0;             ///< left out: within one node (its files)
  std::uint64_t empty = 0;           ///< left out: of no bytes
  std::uint64_t elsewhere = 0;       ///< of other memory than the host's, moved in the host's
  Duration length{0};                ///< from the first until the last has ended
  std::uint64_t area_bytes = 0;      ///< of the largest move
  std::uint64_t lanes = 1;  ///< moves at a time: as many as there were, as far as room allows
};

/// Of one move at most, before rounding.
inline constexpr std::uint64_t kMaxMoveBytes = std::uint64_t{1} << 30U;

/// In whatever order. Errors: out_of_range (a transfer is larger), invalid_argument (nothing is
/// left to move).
Result<Stream> plan_stream(std::span<const RecordedTransfer> recorded);

}  // namespace towpath::tools::replay
