// Peer: another agent, as metadata described it, and the ways to reach it.
//
// A Peer stands for one incarnation under one loaded identity. A restarted agent is another Peer;
// the old one stays, lost, until the last transfer and prepared list let go of it. Thread: as each
// field says.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include <towpath/agent/channel.h>
#include <towpath/agent/memory_record.h>
#include <towpath/agent/path_times.h>
#include <towpath/agent/remote_regions.h>
#include <towpath/backend/backend.h>
#include <towpath/core/identity.h>
#include <towpath/telemetry/agent_meter.h>

namespace towpath::agent {

/// The way to a peer over one backend. Guarded by the mutex of that backend's instance.
struct PeerPath {
  std::unique_ptr<backend::Connection> connection;
  Status refusal;  ///< why there is no connection, or why it was lost
  bool lost = false;
  std::optional<SendWindow> outbox;  ///< on the way that carries notifications to this peer
  bool outbox_waits = false;         ///< among those that the instance flushes
};

struct Peer {
  AgentIdentity identity;                 ///< immutable
  bool is_self = false;                   ///< immutable
  telemetry::PeerMeter* meter = nullptr;  ///< immutable once in use; null: nobody counts

  // Guarded by the agent's control mutex.
  std::uint64_t generation = 0;       ///< the newest that was loaded
  std::uint64_t full_generation = 0;  ///< the newest that was not partial; 0: none was
  InstanceMask full_reachable = 0;    ///< what was reachable when that was loaded
  RemoteRegions regions;
  InstanceMask refusal_advertised =
      0;  ///< backends of which the log knows that they refused a region

  /// Over which notifications travel; kMaxInstances: none carries them. Set once where the peer is
  /// in use: two ways would let them overtake each other. Relaxed: the instance itself was
  /// published before.
  std::atomic<std::size_t> notification_instance{kMaxInstances};

  /// Ways that were opened. Only grows.
  std::atomic<InstanceMask> reachable{0};
  std::array<PeerPath, kMaxInstances> paths;

  PathTimes times;  ///< of the ways to it, where they are measured

  /// Some way was lost, and will not come back: never that to oneself. Set under an instance's
  /// mutex; release pairs with the acquire of readers, who then find the reason in `ways`.
  std::atomic<bool> lost{false};
  /// Its loss is no news. Relaxed: who says so and then says farewell does both before it can go.
  std::atomic<bool> excused{false};
};

using PeerPtr = std::shared_ptr<Peer>;

/// Errors: peer_lost. Thread: any.
Status check_not_lost(const Peer& peer);

}  // namespace towpath::agent
