// DeviceWindow: the way between frames and the memory of one device: a frame's worth of pinned
// memory (plain, where the driver gives none: slower), and a stream whose copies are waited for, so
// that between calls none is under way. Thread: loop.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include <towpath/backends/messages/frames.h>
#include <towpath/device/driver.h>

namespace towpath::backends::messages {

class DeviceWindow {
 public:
  /// Errors: the driver's.
  static Result<std::unique_ptr<DeviceWindow>> open(const std::shared_ptr<device::Device>& device);

  /// What was fetched is of no use any more once something else is.
  void clear() noexcept { used_ = 0; }
  /// The bytes of a piece, one stretch behind the other. All that is fetched between two clear()
  /// fits into one frame. Errors: the driver's.
  Result<ConstByteSpan> fetch(const Piece& piece);
  /// Errors: the driver's; some of the bytes may have landed.
  Status store(const Piece& piece, ConstByteSpan from);

 private:
  explicit DeviceWindow(std::shared_ptr<device::Stream> stream) : stream_(std::move(stream)) {}
  Status copy(const Piece& piece, std::uint64_t in_window, bool to_device);

  device::Memory pinned_;
  Bytes plain_;  // empty: pinned_ is there
  std::uint64_t address_ = 0;
  std::uint64_t used_ = 0;
  std::vector<device::Copy> copies_;
  std::shared_ptr<device::Stream> stream_;  // last: it uses the memory
};

/// One for each device, made when its first memory is registered. Thread: loop.
class DeviceWindows {
 public:
  explicit DeviceWindows(device::DriverSource source) : source_(std::move(source)) {}

  /// Errors: unsupported (no driver was given), the driver's.
  Result<DeviceWindow*> of(unsigned ordinal);

 private:
  const device::DriverSource source_;
  std::shared_ptr<device::Driver> driver_;
  std::map<unsigned, std::unique_ptr<DeviceWindow>> windows_;
};

}  // namespace towpath::backends::messages
