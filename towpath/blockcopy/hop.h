// Hop: one movement of bytes under way: by this process, by a device's stream, or by an agent.
//
// A hop is started with a plan and both sides; it is polled until it has ended, and when it has, no
// byte moves any more. It takes no decisions: which mover and which bytes are a Route's and a
// plan's. Thread: loop.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/blockcopy/route.h>
#include <towpath/device/bounce.h>
#include <towpath/layout/box_plan.h>
#include <towpath/layout/layout.h>
#include <towpath/memory/device_region.h>

namespace towpath::blockcopy {

/// One side of copies: where its bytes are, and whose they are.
struct CopySide {
  layout::TensorView view;
  layout::Location location;
  std::string agent;  ///< whose memory: our own, or a peer
  RouteEnd end = RouteEnd::host;
  std::vector<layout::RegionExtent> regions;
  /// The same as bytes; of a host side only. A remote side never has any.
  std::vector<ByteSpan> bytes;
  std::vector<memory::SharedRegion> keep;  ///< alive while bytes may move
};

class Hop {
 public:
  Hop() = default;
  Hop(const Hop&) = delete;
  Hop& operator=(const Hop&) = delete;
  virtual ~Hop() = default;

  /// Whether it has ended, and is quiesced. Does not wait.
  virtual bool has_ended() = 0;
  /// Once it has ended: ok, or why bytes are not in place.
  virtual Status status() const = 0;
  /// Ends it early if it can be. has_ended() still reports when it is quiesced.
  virtual void cancel() {}
  /// What wait_fd() of the agent does not report.
  virtual bool needs_polling() const { return false; }
};

/// A stream for each device that was given.
class DeviceStreams {
 public:
  explicit DeviceStreams(std::vector<memory::SharedDevice> devices = {})
      : devices_(std::move(devices)) {}

  /// Errors: not_found (the device was not given to the manager).
  Result<device::CopyStream*> stream(std::uint64_t ordinal);
  Result<memory::SharedDevice> device(std::uint64_t ordinal) const;

 private:
  std::vector<memory::SharedDevice> devices_;
  std::map<std::uint64_t, device::CopyStream> streams_;
};

/// What hops are made with. All of it outlives them.
struct HopTools {
  agent::Agent& agent;
  DeviceStreams& streams;
};

struct HopRequest {
  Mover mover = Mover::none;
  const CopySide& source;
  const CopySide& target;
  const layout::BoxPlan& plan;
  Duration timeout{0};
};

/// Errors: those of copy_boxes(), of the device, or of Agent::create_transfer() and post().
Result<std::unique_ptr<Hop>> start_hop(const HopRequest& request, const HopTools& tools);

}  // namespace towpath::blockcopy
