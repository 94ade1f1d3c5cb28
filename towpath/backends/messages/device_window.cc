#include <towpath/backends/messages/device_frames.h>
#include <towpath/backends/messages/device_window.h>

namespace towpath::backends::messages {

DeviceWindow::DeviceWindow(std::shared_ptr<device::Stream> stream) : stream_(std::move(stream)) {}
DeviceWindow::~DeviceWindow() = default;

Result<std::unique_ptr<DeviceWindow>> DeviceWindow::open(
    const std::shared_ptr<device::Device>& device, unsigned ordinal, net::MessageWorker* worker) {
  TOWPATH_TRY(auto stream, device->create_stream());
  std::unique_ptr<DeviceWindow> window(new DeviceWindow(std::move(stream)));
  if (auto pinned = device->allocate_pinned(kPayloadBytes); pinned.ok())
    window->pinned_ = *std::move(pinned);
  else
    window->plain_.resize(kPayloadBytes);
  window->address_ =
      window->pinned_ ? window->pinned_.address() : address_of(window->plain_.data());
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
  if (copies_.empty()) return {};
  const Status given = stream_->copy_batch(copies_);
  copies_.clear();
  const Status done = stream_->synchronize();  // also what was given of a batch that failed
  return given.ok() ? done : given;
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
