#include <towpath/backends/gds/memories.h>

namespace towpath::backends::gds {

std::unique_ptr<DeviceMemory> DeviceMemory::make(Parts parts, const RegionDescriptor& region) {
  auto memory = std::make_unique<DeviceMemory>(std::move(parts), region);
  const CuFile& library = *memory->cufile_;
  const auto current = memory->device_->make_current();
  const Status registered =
      current.ok() ? library.check(library.call().register_buffer(memory->base(), region.length, 0),
                                   "libcufile does not register ", to_string(region))
                   : current.status();
  if (!registered.ok()) memory->refusal_ = registered.to_string();
  return memory;
}

DeviceMemory::~DeviceMemory() {
  check_quiesced();
  if (!refusal_.empty()) return;
  const auto current = device_->make_current();
  if (current.ok()) (void)cufile_->call().deregister_buffer(base());
}

FileMemory::~FileMemory() {
  check_quiesced();
  if (table_ == nullptr) return;
  record_->registered = false;
  record_->named.reset();
  table_->remove(record_->id);
}

}  // namespace towpath::backends::gds
