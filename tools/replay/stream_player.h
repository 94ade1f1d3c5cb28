// StreamPlayer: repeats a stream of transfers against its owner (stream_owner.h), each at its time
// and with as many under way as the stream has lanes. What is late waits for a lane, and is
// reported.
//
// Bytes that were read are verified here, bytes that were written by the owner; a lane is used
// again when that is done.
// One thread does all, also the agent's progress.
#pragma once

#include <memory>
#include <vector>

#include <towpath/memory/system_region.h>
#include <towpath/standard/standard.h>

#include "tools/replay/faults.h"
#include "tools/replay/hop.h"
#include "tools/replay/meeting.h"
#include "tools/replay/options.h"
#include "tools/replay/stream.h"

namespace towpath::tools::replay {

struct StreamOutcome {
  struct Path {
    Hop moved;
    Spread recorded;  ///< of those that had ended, and their bytes
    std::uint64_t recorded_bytes = 0;

    void note_recorded(const Stream::Move& move) {
      if (move.took.count() <= 0) return;
      recorded.add(move.took);
      recorded_bytes += move.bytes();
    }
  };
  Path reads, writes;
  std::uint64_t verified = 0;  ///< moves whose every byte arrived, and touched nothing else
  std::uint64_t mismatches = 0;
  Spread late;  ///< from the moment that a move was due until it was posted
  double seconds = 0;
  Faults faults;
};

class StreamPlayer {
 public:
  /// Publishes its metadata at `options.rendezvous`; the owner may be started now. `stream` must
  /// outlive it.
  static Result<std::unique_ptr<StreamPlayer>> open(const Options& options, const Stream& stream);

  /// `owner_lives` is asked until it was met. Errors: what ends the run before its end
  /// (peer_lost, timed_out); what is found wrong is in the outcome.
  Result<StreamOutcome> run(const Alive& owner_lives);

 private:
  struct Lane {
    enum class State : std::uint8_t { free, moving, looked_at };
    State state = State::free;
    std::uint64_t ordinal = 0;  ///< of the move
    agent::Transfer transfer;
  };

  StreamPlayer(const Options& options, const Stream& stream)
      : options_(options), stream_(stream), lanes_(stream.lanes) {}
  Status meet(const Alive& owner_lives);
  Status launch_due();
  Status launch(std::uint64_t lane);
  Result<agent::Transfer> make_transfer(std::uint64_t lane, const Stream::Move& move);
  Result<bool> reap();
  Status ended(std::uint64_t lane);
  Result<bool> hear();
  Status wait_for_work();
  Instant due(std::uint64_t ordinal) const;
  bool has_free_lane() const;
  void settle(std::uint64_t lane, std::optional<std::uint64_t> wrong);
  ByteSpan area(std::uint64_t lane) const;
  const Stream::Move& move_of(const Lane& lane) const { return stream_.moves[lane.ordinal]; }

  const Options options_;
  const Stream& stream_;
  std::unique_ptr<standard::Node> node_;
  std::unique_ptr<Meeting> meeting_;
  std::shared_ptr<memory::SystemRegion> memory_;
  memory::Registration registration_;
  const std::string owner_ = prefill_name(0);
  std::uint64_t remote_address_ = 0;
  std::uint64_t remote_device_ = 0;

  std::vector<Lane> lanes_;
  std::uint64_t next_ = 0;  // move
  std::uint64_t busy_ = 0;  // lanes
  Instant started_;
  Instant heard_;  // when something last ended
  StreamOutcome outcome_;
};

}  // namespace towpath::tools::replay
