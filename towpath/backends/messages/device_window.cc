#include <towpath/backends/messages/device_frames.h>
#include <towpath/backends/messages/device_window.h>

namespace towpath::backends::messages {

DeviceWindow::DeviceWindow(device::BounceSlots memory, std::shared_ptr<device::Device> device)
    : memory_(std::move(memory)), stream_(std::move(device)) {}
DeviceWindow::~DeviceWindow() = default;

Result<std::unique_ptr<DeviceWindow>> DeviceWindow::open(
    const std::shared_ptr<device::Device>& device, unsigned ordinal, net::MessageWorker* worker) {
  TOWPATH_TRY(device::BounceSlots memory,
              device::BounceSlots::make(device.get(), {.slots = 1, .slot_bytes = kPayloadBytes}));
  std::unique_ptr<DeviceWindow> window(new DeviceWindow(std::move(memory), device));
  if (worker != nullptr) {
    TOWPATH_TRY(window->frames_, DeviceFrames::open(device, ordinal, *window, *worker));
  }
  return window;
}

void DeviceWindow::add(const Piece& piece, std::uint64_t other_end, bool to_piece) {
  const bool is_dense = piece.stride == piece.length || piece.count == 1;
  const std::uint64_t length = is_dense ? piece.bytes() : piece.length;
  for (std::uint32_t k = 0; k < (is_dense ? 1 : piece.count); ++k, other_end += length) {
    const std::uint64_t there = piece.address + k * piece.stride;
    copies_.push_back({to_piece ? there : other_end, to_piece ? other_end : there, length});
  }
}

Status DeviceWindow::finish() {
  Status done = stream_.copy_and_wait(copies_);
  copies_.clear();
  return done;
}

Result<DeviceWindow*> DeviceWindows::of(unsigned ordinal) {
  if (const auto known = windows_.find(ordinal); known != windows_.end())
    return known->second.get();
  if (!source_.open)
    return error(Code::unsupported, "this backend was given no driver for device memory",
                 "open it with one (standard::Node does)");
  if (driver_ == nullptr) {
    TOWPATH_TRY(driver_, source_.open());
  }
  TOWPATH_TRY(const auto device, driver_->open(ordinal));
  TOWPATH_TRY(auto window, DeviceWindow::open(device, ordinal, worker_));
  return windows_.emplace(ordinal, std::move(window)).first->second.get();
}

}  // namespace towpath::backends::messages
