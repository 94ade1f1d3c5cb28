// TransferCore: the state behind a Transfer handle.
// Thread: fields say which lock guards them; `instance->mutex` unless noted.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include <towpath/agent/options.h>
#include <towpath/agent/peer.h>
#include <towpath/agent/segment_list.h>
#include <towpath/agent/transfer.h>

namespace towpath::agent {

class AgentCore;
class BackendInstance;

/// One side of transfers: whose memory, and where.
struct PreparedSide {
  ResolvedList list;
  PeerPtr peer;  ///< null: the agent's own, local side
  std::weak_ptr<AgentCore> agent;
};

class TransferCore : public std::enable_shared_from_this<TransferCore> {
 public:
  // Set when made, then immutable until recycled.
  std::shared_ptr<AgentCore> agent;
  BackendInstance* instance = nullptr;
  TransferOp op = TransferOp::read;
  std::shared_ptr<const PreparedSide> local;
  std::shared_ptr<const PreparedSide> remote;
  std::array<std::shared_ptr<PreparedSide>, 2> own_sides;  // the same, where nobody else has them
  TransferOptions options;
  std::vector<std::uint32_t> local_indices;  // options' selections borrow from these
  std::vector<std::uint32_t> remote_indices;
  SegmentList segments;
  std::unique_ptr<backend::Operation> operation;
  bool is_trial = false;  ///< its time counts in the choice between ways

  /// Release pairs with the acquire of state(): who sees `ended` sees the outcome and the report.
  std::atomic<TransferState> state{TransferState::prepared};
  std::atomic<Outcome> outcome{Outcome::none};

  std::uint64_t checked_generation =
      0;  // of the agent's memory, when the records were last examined; 0: not since it was made
  std::uint64_t record_changes = 0;  // of all of them, in the instance: as long as they stand
  std::optional<Bytes> notification;
  Status status;
  std::vector<DescriptorError> errors;
  Instant deadline;
  Instant posted_at;
  Duration posted_since_epoch{0};
  std::atomic<std::int64_t> post_nanoseconds{
      0};  // relaxed: written after the transfer may have ended
  Duration transfer_time{0};
  std::uint64_t moved_bytes = 0;
  telemetry::Flow* flow = nullptr;  // where it is counted; null: nowhere
  std::uint64_t flow_ticket = 0;

  // The instance's list of active transfers; an active transfer keeps itself alive.
  TransferCore* previous = nullptr;
  TransferCore* next = nullptr;
  std::shared_ptr<TransferCore> keep_alive;

  SegmentList::Side local_side() const { return {&local->list, options.local}; }
  SegmentList::Side remote_side() const { return {&remote->list, options.remote}; }
  Peer& peer() const { return *remote->peer; }
  bool is_active() const { return keep_alive != nullptr; }
  bool touches(const MemoryRecord* record) const;
};

}  // namespace towpath::agent
