#include <algorithm>

#include <towpath/backends/messages/device_frames.h>
#include <towpath/core/format.h>

namespace towpath::backends::messages {
namespace {

/// In each direction; 8 MiB of the device in all.
constexpr std::size_t kStagingBuffers = 8;
/// The longest prefix and head; the payload behind it begins where a device copies best.
constexpr std::uint64_t kHeadBytes = net::MessagePrefix::kBytes + kMaxHeadBytes;
constexpr std::uint64_t kPayloadOffset = (kHeadBytes + 255) / 256 * 256;
constexpr std::uint64_t kRoomBytes = kPayloadOffset + kPayloadBytes;

Piece extent(std::uint64_t address, std::uint64_t bytes) {
  return {.address = address, .length = static_cast<std::uint32_t>(bytes)};
}

}  // namespace

Result<std::unique_ptr<DeviceFrames>> DeviceFrames::open(
    const std::shared_ptr<device::Device>& device, unsigned ordinal, DeviceWindow& window,
    net::MessageWorker& worker) {
  std::unique_ptr<DeviceFrames> frames(new DeviceFrames(ordinal, window));
  TOWPATH_TRY(frames->memory_, device->allocate(2 * kStagingBuffers * kRoomBytes));
  frames->head_.resize(kHeadBytes);
  for (std::size_t i = 0; i < 2 * kStagingBuffers; ++i)
    frames->staging_.push_back({ordinal, frames->memory_.address() + i * kRoomBytes, kRoomBytes});
  for (std::size_t i = 0; i < kStagingBuffers; ++i) {
    frames->free_.push_back(&frames->staging_[i]);
    // With fewer it is slower; with none a peer would wait for ever.
    Status given = worker.receive_into(frames->staging_[kStagingBuffers + i]);
    if (!given.ok() && i == 0) return given;
  }
  return frames;
}

net::DeviceStagingBuffer* DeviceFrames::take() {
  if (free_.empty()) return nullptr;
  net::DeviceStagingBuffer* const room = free_.back();
  free_.pop_back();
  return room;
}

std::uint64_t DeviceFrames::payload_place(const net::DeviceStagingBuffer* room,
                                          const DeviceWindow& window) noexcept {
  return room != nullptr ? room->address + kPayloadOffset : address_of(window.room().data());
}

Result<std::uint64_t> DeviceFrames::seal(const net::DeviceStagingBuffer& room,
                                         ConstByteSpan prefix_and_head) {
  const std::uint64_t begin = kPayloadOffset - prefix_and_head.size();
  window_.store(extent(room.address + begin, prefix_and_head.size()),
                address_of(prefix_and_head.data()));
  TOWPATH_TRY(window_.finish());
  return begin;
}

Result<DeviceFrames::Opened> DeviceFrames::open(const net::DeviceStagingBuffer& room,
                                                std::uint64_t bytes) {
  const ByteSpan front = ByteSpan(head_).first(std::min<std::uint64_t>(bytes, head_.size()));
  if (front.size() < net::MessagePrefix::kBytes)
    return error(Code::corrupt, cat("a message of ", bytes, " bytes has no prefix"));
  window_.fetch(extent(room.address, front.size()), address_of(front.data()));
  TOWPATH_TRY(window_.finish());
  const net::MessagePrefix prefix = net::load_prefix(front);
  const std::uint64_t body_offset = net::MessagePrefix::kBytes + std::uint64_t{prefix.head_bytes};
  if (body_offset > front.size() || body_offset + prefix.body_bytes != bytes) {
    return error(Code::corrupt,
                 cat("a message of ", bytes, " bytes says that it has ", prefix.head_bytes,
                     " of head and ", prefix.body_bytes, " of body"));
  }
  return Opened{.head = front.subspan(net::MessagePrefix::kBytes, prefix.head_bytes),
                .body_bytes = prefix.body_bytes,
                .body_address = room.address + body_offset};
}

}  // namespace towpath::backends::messages
