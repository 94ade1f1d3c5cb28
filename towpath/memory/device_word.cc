#include <towpath/memory/device_region.h>

namespace towpath::memory {

Result<DeviceWord> DeviceWord::open(const SharedDevice& device, std::uint64_t address) {
  if (device == nullptr)
    return error(Code::invalid_argument, "a word in the memory of no device",
                 "open a device of a driver (device/driver.h)");
  TOWPATH_TRY(auto stream, device->create_stream());
  DeviceWord word(std::move(stream), address);
  TOWPATH_TRY(word.write(0));
  TOWPATH_TRY(word.synchronize());
  return word;
}

Status DeviceWord::write(std::uint64_t value) { return stream_->write_word({address_, value}); }

Status DeviceWord::synchronize() { return stream_->synchronize(); }

}  // namespace towpath::memory
