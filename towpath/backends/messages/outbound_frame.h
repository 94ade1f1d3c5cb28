// OutboundFrame: a frame on its way to a link's endpoint: in a buffer, with what of its payload
// leaves from where it lies; or its payload in a room of a device, and its head there too once it
// is sealed. Thread: loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <towpath/backends/messages/device_frames.h>
#include <towpath/backends/messages/frames.h>
#include <towpath/net/messages/message_worker.h>

namespace towpath::backends::messages {

struct OutboundFrame {
  std::unique_ptr<net::MessageBuffer> buffer;
  net::BodySource* rest = nullptr;
  std::uint64_t payload_bytes = 0;  ///< of `rest`, or in `room`
  std::optional<unsigned> into;     ///< a device of the receiver's
  DeviceFrames* frames = nullptr;
  net::DeviceStagingBuffer* room = nullptr;  ///< one of theirs; null: it stands in the buffer
  std::uint64_t begin = 0;                   ///< in the room, when it is closed

  /// Takes a room of `window`'s device, if its carrier takes devices and one is free.
  void take_room(const DeviceWindow& window) {
    frames = window.frames();
    if (frames != nullptr) room = frames->take();
  }
  void drop_room() {
    if (room != nullptr) frames->give_back(*std::exchange(room, nullptr));
  }
  /// The last step of what is in a room: it is there now, all of it. Errors: the driver's; then
  /// there is no room any more.
  Status close_room(net::Sealer& sealer) {
    if (room == nullptr) return {};
    sealer.seal(head_of(*buffer));
    const auto sealed = frames->seal(*room, buffer->with_prefix(payload_bytes));
    if (!sealed.ok()) drop_room();
    begin = sealed.ok() ? *sealed : 0;
    return sealed.status();
  }
  std::uint64_t bytes_in_room() {
    return buffer->with_prefix(payload_bytes).size() + payload_bytes;
  }
};

}  // namespace towpath::backends::messages
