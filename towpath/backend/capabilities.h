// What a backend can do, as data. The agent chooses by it, `towpath explain` prints it, and the
// conformance suite holds the backend to every line of it.
// Thread: immutable.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/descriptor.h>
#include <towpath/core/memory_kind.h>
#include <towpath/core/status.h>
#include <towpath/core/transfer_state.h>

namespace towpath::backend {

/// A way that bytes can go: between a local and a remote kind, for some operations, to the agent
/// itself, to another agent, or both.
struct SupportedPair {
  MemoryKind local = MemoryKind::system;
  MemoryKind remote = MemoryKind::system;
  bool read = true;
  bool write = true;
  bool to_self = false;
  bool to_peer = false;
};

/// How an operation that was asked to stop quiesces (no byte can land or leave any more).
enum class Quiescence : std::uint8_t {
  immediate,  ///< cancel() completes it before it returns
  bounded,    ///< it completes by itself within `quiescence_bound`
  teardown,   ///< only Backend::teardown of its connection makes it complete
  none,       ///< never for certain: the agent keeps the memory alive for good
};

enum class Notifications : std::uint8_t {
  none,      ///< cannot carry any
  reliable,  ///< in order, once, or the connection is lost
  lossy,     ///< may drop, repeat and reorder: the agent numbers, acknowledges and repeats
};

/// What a transfer should cost: latency plus bytes over bandwidth plus pieces times per_segment.
struct Cost {
  Duration latency{0};
  Duration per_segment{0};
  double bytes_per_second = 0;  ///< 0: unknown
  bool measured = false;        ///< else declared
};

struct Capabilities {
  std::vector<SupportedPair> pairs;
  std::uint64_t alignment = 1;  ///< addresses and lengths that avoid a detour; others still work
  std::uint64_t max_segment_bytes = UINT64_MAX;  ///< the agent splits longer extents
  Notifications notifications = Notifications::none;
  std::uint64_t max_notification_bytes = 0;
  Quiescence quiesced = Quiescence::immediate;
  Duration quiescence_bound{0};  ///< for `bounded`
  /// Who waits does well to look for an end before he sleeps. Not where threads of the kernel move
  /// the bytes: they want the processor.
  bool looks_pay = true;
  Cost cost;

  /// The route for this pair and operation, or null.
  const SupportedPair* pair(MemoryKind local, MemoryKind remote, TransferOp op,
                            bool to_self) const {
    for (const SupportedPair& r : pairs) {
      const bool allows = op == TransferOp::read ? r.read : r.write;
      const bool reaches = to_self ? r.to_self : r.to_peer;
      if (r.local == local && r.remote == remote && allows && reaches) return &r;
    }
    return nullptr;
  }
  /// Whether memory of this kind can take part on either side.
  bool takes(MemoryKind kind) const {
    for (const SupportedPair& r : pairs) {
      if (r.local == kind || (r.remote == kind)) return true;
    }
    return false;
  }
  bool reaches_peers() const {
    for (const SupportedPair& r : pairs) {
      if (r.to_peer) return true;
    }
    return false;
  }
};

/// What loads and stores of this process reach.
inline constexpr std::array kHostKinds = {MemoryKind::system, MemoryKind::pinned};
/// Every pair of kHostKinds, to oneself and to peers.
std::vector<SupportedPair> host_pairs();

/// What each backend asks of memory that lies in this process, before it registers it.
/// Errors: unsupported (a kind that it does not take), invalid_argument (null, empty, wraps).
Status check_region(std::string_view backend, const Capabilities& can,
                    const RegionDescriptor& region);
/// Errors: invalid_argument (longer than max_notification_bytes).
Status check_message(const Capabilities& can, ConstByteSpan message);

constexpr std::string_view name_of(Quiescence quiesced) noexcept {
  switch (quiesced) {
    case Quiescence::immediate: return "immediate";
    case Quiescence::bounded: return "bounded";
    case Quiescence::teardown: return "teardown";
    case Quiescence::none: return "none";
  }
  return "unknown";
}

constexpr std::string_view name_of(Notifications notifications) noexcept {
  switch (notifications) {
    case Notifications::none: return "none";
    case Notifications::reliable: return "reliable";
    case Notifications::lossy: return "lossy";
  }
  return "unknown";
}

}  // namespace towpath::backend
