// DeviceWindow: the way between frames and the memory of one device: a frame's worth of pinned
// memory (plain, where the driver gives none: slower), and a stream. Copies are collected and made
// together, and waited for, so that between calls none is under way. Thread: loop.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include <towpath/backends/messages/frames.h>
#include <towpath/device/bounce.h>
#include <towpath/device/driver.h>
#include <towpath/net/messages/message_worker.h>

namespace towpath::backends::messages {

class DeviceFrames;

class DeviceWindow {
 public:
  /// `worker`: null: the carrier takes no devices. Errors: the driver's, the carrier's.
  static Result<std::unique_ptr<DeviceWindow>> open(const std::shared_ptr<device::Device>& device,
                                                    unsigned ordinal, net::MessageWorker* worker);
  ~DeviceWindow();

  /// The pinned memory, kPayloadBytes: between the calls of one frame it is whose turn it is.
  ByteSpan room() const noexcept { return memory_.bytes(); }

  /// To be copied: the bytes of a piece, one extent behind the other, to `target`; or from
  /// `source`. The piece may be any device's or the host's, and so may the other end.
  void fetch(const Piece& piece, std::uint64_t target) { add(piece, target, false); }
  void store(const Piece& piece, std::uint64_t source) { add(piece, source, true); }
  /// The same of all pieces of an iterator (piece_iterator.h), one behind the other.
  template <typename Iterator>
  void fetch_all(Iterator pieces, std::uint64_t target) {
    for (; !pieces.done(); pieces.advance(pieces.rest().bytes())) {
      fetch(pieces.rest(), target);
      target += pieces.rest().bytes();
    }
  }
  /// Copies what was collected, and waits. Errors: the driver's; some of it may have been copied.
  Status finish();

  /// Frames that stand in the device's memory; null: the carrier takes none.
  DeviceFrames* frames() const noexcept { return frames_.get(); }

 private:
  DeviceWindow(device::BounceSlots memory, std::shared_ptr<device::Device> device);
  void add(const Piece& piece, std::uint64_t other_end, bool to_piece);

  const device::BounceSlots memory_;  // one
  std::vector<device::Copy> copies_;
  std::unique_ptr<DeviceFrames> frames_;
  device::CopyStream stream_;  // last: it uses the memory
};

/// One for each device, made when its first memory is registered. Thread: loop.
class DeviceWindows {
 public:
  explicit DeviceWindows(device::DriverSource source) : source_(std::move(source)) {}

  /// From now on windows have frames, which this carrier takes. It must die before them.
  void use(net::MessageWorker& worker) noexcept { worker_ = &worker; }
  /// Errors: unsupported (no driver was given), the driver's, the carrier's.
  Result<DeviceWindow*> of(unsigned ordinal);
  /// One that of() gave.
  DeviceWindow& known(unsigned ordinal) const { return *windows_.at(ordinal); }

 private:
  const device::DriverSource source_;
  net::MessageWorker* worker_ = nullptr;
  std::shared_ptr<device::Driver> driver_;
  std::map<unsigned, std::unique_ptr<DeviceWindow>> windows_;
};

}  // namespace towpath::backends::messages
