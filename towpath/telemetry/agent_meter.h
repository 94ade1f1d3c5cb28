// AgentMeter: what one agent counts, by backend, peer, operation and kinds of memory.
//
//   towpath_transfers_total{outcome}           towpath_transfers_in_flight
//   towpath_transfer_bytes_total               towpath_transfer_bytes_in_flight
//   towpath_transfer_descriptors_total
//   towpath_transfer_nanoseconds (buckets)     towpath_post_nanoseconds (buckets)
//     each {agent, backend, peer, op, local, remote}
//   towpath_transfer_errors_total{agent, status}
//   towpath_registrations_total, towpath_deregistrations_total, towpath_registered_bytes_total,
//   towpath_deregistered_bytes_total, towpath_registered_bytes {agent, backend, kind}
//   towpath_memory_registered_bytes_total, towpath_memory_deregistered_bytes_total {agent, kind}
//     each byte once, however many backends have it
//   towpath_registration_errors_total{agent, backend, kind, status}
//   towpath_notifications_total, towpath_notification_bytes_total {agent, peer, direction}
//   towpath_peers_lost_total{agent}
//
// Labels are bounded: only the first `max_peers` names of peers get a label of their own, all later
// ones share "other". A flow is looked up when a transfer is made, under a lock; on the data path
// there are a few loads and stores, and no allocation. With a flight recorder the same moments go
// there.
// Thread: any, for AgentMeter; each Flow says more.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <towpath/core/status.h>
#include <towpath/telemetry/flight_recorder.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::telemetry {

/// Under which peers beyond the limit are counted.
inline constexpr std::string_view kOtherPeers = "other";

/// Transfers of one backend, peer, operation and pair of kinds. The agent calls it under the lock
/// of the backend, which makes all of it one at a time; a meter serves one agent for that reason.
class Flow {
 public:
  struct Posted {
    Instant at;
    std::uint64_t bytes = 0;
    std::uint64_t descriptors = 0;
    std::uint64_t runs = 0;  ///< extents without a gap that these came to
  };
  struct Ended {
    std::uint64_t ticket = 0;  ///< what posted() returned
    Instant at;
    Outcome outcome = Outcome::done;
    Code code = Code::ok;
    std::uint64_t posted_bytes = 0;
    std::uint64_t moved_bytes = 0;
    std::uint64_t descriptors = 0;
    Duration time{0};
  };

  std::uint64_t posted(const Posted& what) noexcept;
  /// The time that the call of post() took; may come after the end.
  void post_took(Duration time) noexcept { post_time_.record(time); }
  void ended(const Ended& what) noexcept;

 private:
  friend class AgentMeter;
  struct Key {
    std::string backend;
    std::string peer;
    TransferOp op;
    MemoryKind local;
    MemoryKind remote;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  static constexpr std::size_t kOutcomes = 6;
  using Outcomes = std::array<Counter*, kOutcomes>;

  Flow(class AgentMeter& meter, const Key& key, std::uint32_t flight_peer);

  AgentMeter& meter_;
  FlightFlow flight_flow_;
  const std::uint32_t flight_peer_;
  Outcomes outcomes_{};
  Counter& bytes_;
  Counter& descriptors_;
  Gauge& in_flight_;
  Gauge& bytes_in_flight_;
  BucketHistogram& transfer_time_;
  BucketHistogram& post_time_;
};

/// Notifications to and from one peer. Thread: any.
class PeerMeter {
 public:
  enum class Direction : std::uint8_t { sent, received, refused };
  /// Cost: two additions. No lock, no allocation.
  void notified(Direction direction, std::uint64_t bytes) noexcept;

 private:
  friend class AgentMeter;
  struct Counters {
    Counter* messages = nullptr;
    Counter* bytes = nullptr;
  };
  PeerMeter(class AgentMeter& meter, std::string label, std::uint32_t flight);

  AgentMeter& meter_;
  const std::string label_;
  const std::uint32_t flight_;
  std::array<Counters, 3> by_direction_{};
};

class AgentMeter {
 public:
  struct Options {
    std::string agent;  ///< its name: any bytes
    std::size_t max_peers = 64;
    BucketBounds time_bounds;
    FlightRecorder* flight = nullptr;  ///< null: none; must outlive the meter
  };
  struct FlowOf {
    std::string_view backend;
    std::string_view peer;
    TransferOp op = TransferOp::read;
    MemoryKind local = MemoryKind::system;
    MemoryKind remote = MemoryKind::system;
  };
  struct RegistrationOf {
    std::string_view backend;
    MemoryKind kind = MemoryKind::system;
    std::uint64_t bytes = 0;
    bool is_alone = true;  ///< no other backend has these bytes at this moment
  };

  /// `metrics` must outlive the meter.
  AgentMeter(Metrics& metrics, Options options);
  ~AgentMeter();
  AgentMeter(const AgentMeter&) = delete;
  AgentMeter& operator=(const AgentMeter&) = delete;

  Metrics& metrics() noexcept { return metrics_; }

  // Both take a lock, and allocate the first time. What they return is valid as long as the meter.
  Flow& flow(const FlowOf& of);
  PeerMeter& peer(std::string_view name);

  // Each takes a lock; none is on the data path.
  void opened(std::uint64_t incarnation);
  void closed(std::uint64_t incarnation);
  /// `code`: how the backend answered; anything but ok is counted as an error only.
  void registered(const RegistrationOf& what, Code code = Code::ok);
  void deregistered(const RegistrationOf& what);
  void peer_met(std::string_view peer, std::uint64_t incarnation);
  void peer_lost(std::string_view peer, std::uint64_t incarnation, Code why);

 private:
  friend class Flow;
  friend class PeerMeter;
  // Under the mutex.
  PeerMeter& peer_of(std::string_view name);
  std::uint32_t flight_name(std::string_view name);

  Labels labelled(std::initializer_list<Label> labels) const;
  Labels labels_of(const Flow::Key& key) const;
  void count_error(Code code) noexcept;
  void record(FlightEvent event, std::uint32_t who, const FlightRecord::Args& args) noexcept;
  void count_memory(std::string_view which, const RegistrationOf& what);

  Metrics& metrics_;
  const Options options_;
  const std::string agent_label_;
  std::array<Counter*, 32> errors_{};  // by code
  // Plain std::mutex: the annotated one lives in run/, which stands below this module.
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<PeerMeter>, std::less<>> peers_;
  std::unique_ptr<PeerMeter> others_;
  std::map<std::string, std::uint32_t, std::less<>> flight_names_;
  std::map<Flow::Key, std::unique_ptr<Flow>> flows_;
};

}  // namespace towpath::telemetry
