// DeviceFrames: frames that stand in the memory of one device, head and all, for a carrier that
// takes devices (net::DeviceStagingBuffer). What a user has there is copied to such a room, or from
// it, by the device and inside of our calls, as through the window; only rooms are the carrier's.
//
//   out   | ...... prefix, head | payload ............ |
//   in    | prefix, head | payload ............ | .... |
//
// Thread: loop.
#pragma once

#include <memory>
#include <vector>

#include <towpath/backends/messages/device_window.h>
#include <towpath/net/messages/message_worker.h>

namespace towpath::backends::messages {

class DeviceFrames {
 public:
  /// Gives the carrier rooms for what comes. `window`, to the same device, and `worker` outlive it;
  /// the worker's last word on rooms comes before it dies. Errors: the driver's, the carrier's.
  static Result<std::unique_ptr<DeviceFrames>> open(const std::shared_ptr<device::Device>& device,
                                                    unsigned ordinal, DeviceWindow& window,
                                                    net::MessageWorker& worker);

  unsigned device() const noexcept { return ordinal_; }

  // On their way out:
  /// Null: all are the carrier's.
  net::DeviceStagingBuffer* take();
  void give_back(net::DeviceStagingBuffer& room) { free_.push_back(&room); }
  /// Where a payload is put: into this room or, without one, into that of the window.
  static std::uint64_t payload_place(const net::DeviceStagingBuffer* room,
                                     const DeviceWindow& window) noexcept;
  /// Puts the head before the payload, by the copies that the window has collected and one more.
  /// Returns where in the room the message begins. Errors: the driver's.
  Result<std::uint64_t> seal(const net::DeviceStagingBuffer& room, ConstByteSpan prefix_and_head);

  // On their way in:
  struct Opened {
    ConstByteSpan head;  ///< in host memory, until the next one is opened
    std::uint64_t body_bytes = 0;
    std::uint64_t body_address = 0;  ///< on the device
  };
  /// Of the `bytes` that came into a room. Errors: the driver's, corrupt (no message of our kind).
  Result<Opened> open(const net::DeviceStagingBuffer& room, std::uint64_t bytes);

 private:
  DeviceFrames(unsigned ordinal, DeviceWindow& window) : ordinal_(ordinal), window_(window) {}

  const unsigned ordinal_;
  DeviceWindow& window_;
  device::Memory memory_;  // of all rooms
  std::vector<net::DeviceStagingBuffer> staging_;
  std::vector<net::DeviceStagingBuffer*> free_;  // of those for what goes out
  Bytes head_;
};

}  // namespace towpath::backends::messages
