// The values of an agent's interface: what it is created with, what its calls take and give.
// Thread: values; PreparedList may be copied and used from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <towpath/backend/registry.h>
#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/descriptor.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>
#include <towpath/telemetry/log.h>

namespace towpath::telemetry {
class AgentMeter;
}

namespace towpath::agent {

/// Which extents of a prepared list: a range, or indices in any order.
class Selection {
 public:
  /// All of a list.
  Selection() = default;
  static Selection range(std::uint64_t first, std::uint64_t count) {
    Selection selection;
    selection.all_ = false;
    selection.first_ = first;
    selection.count_ = count;
    return selection;
  }
  /// `indices` is borrowed for the call that the selection is passed to.
  static Selection of(std::span<const std::uint32_t> indices) {
    Selection selection;
    selection.all_ = false;
    selection.by_index_ = true;
    selection.indices_ = indices;
    selection.count_ = indices.size();
    return selection;
  }

  bool by_index() const noexcept { return by_index_; }
  std::span<const std::uint32_t> indices() const noexcept { return indices_; }
  std::uint64_t first() const noexcept { return first_; }
  /// The index at a position, which is below count_in().
  std::uint64_t at(std::uint64_t position) const noexcept {
    return by_index_ ? indices_[position] : first_ + position;
  }
  std::uint64_t count_in(std::uint64_t list_size) const noexcept {
    return all_ ? list_size : count_;
  }

 private:
  bool all_ = true;
  bool by_index_ = false;
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
  std::span<const std::uint32_t> indices_;
};

struct PreparedSide;

struct AgentOptions {
  std::string name;                             ///< any bytes, 1 to kMaxAgentName
  const backend::Registry* registry = nullptr;  ///< must outlive the agent
  /// Must outlive the agent. If it is not SystemClock, nothing wakes who sleeps for a deadline:
  /// waiting looks at it every 50 ms, and who uses wait_fd() must too.
  const Clock* clock = nullptr;
  telemetry::EventSink* log = nullptr;  ///< null: silent; must outlive the agent
  Duration default_timeout = std::chrono::seconds(30);
  bool capture_telemetry = true;
  /// Counts what the agent does; null: nobody does. Of this agent alone; must outlive it.
  telemetry::AgentMeter* meter = nullptr;
  /// With device memory: as often is each way tried, by the first transfers of about a size, before
  /// the fastest is taken (path_times.h). 0: what backends declare decides, as for other memory.
  unsigned path_trials = 3;
  std::uint64_t incarnation = 0;  ///< 0: a random one
  /// Notifications that arrived and were not taken yet; beyond them senders are held back.
  std::size_t inbox_messages = 65536;
  std::size_t inbox_bytes = std::size_t{64} << 20U;
  /// How long an unacknowledged notification waits before it is repeated (lossy backends only).
  Duration repeat_after = std::chrono::milliseconds(20);
  /// How long letting go of memory waits, beyond the backend's own bound, for transfers that were
  /// stopped, and for peers that are in the middle of a piece: for a machine under load. And how
  /// long at most an agent's end waits while notifications leave.
  Duration quiesce_timeout = std::chrono::seconds(10);
};

/// One side of transfers, resolved once. Cheap to copy; keeps what it refers to alive.
class PreparedList {
 public:
  PreparedList() = default;
  explicit PreparedList(std::shared_ptr<const PreparedSide> side) : side_(std::move(side)) {}
  std::uint64_t size() const noexcept;
  bool valid() const noexcept { return side_ != nullptr; }
  const std::shared_ptr<const PreparedSide>& side() const noexcept { return side_; }

 private:
  std::shared_ptr<const PreparedSide> side_;
};

struct TransferOptions {
  Selection local;   ///< of the local prepared list
  Selection remote;  ///< of the remote one
  /// Sent to the peer once the bytes are in place; nothing: none.
  std::optional<Bytes> notification;
  /// Only these backends, in this order of preference; empty: all.
  std::vector<std::string> backends;
  bool merge = true;  ///< join neighbouring descriptors
};

struct MetadataOptions {
  /// Only the regions that cover these; null: all. An empty list: none, just how to connect.
  const DescriptorList* only = nullptr;
  bool connection_info = true;
};

struct PeerInfo {
  AgentIdentity identity;
  std::uint64_t generation = 0;  ///< of its metadata
  std::uint64_t regions = 0;
  std::vector<std::string> backends;  ///< over which it can be reached
  /// That were accepted for it and not handed over yet, or not acknowledged where that is needed.
  std::uint64_t waiting_notifications = 0;
  bool lost = false;
  Status lost_why;
};

struct Notification {
  AgentIdentity from;
  Bytes message;
};

}  // namespace towpath::agent
