#include <algorithm>
#include <utility>

#include <towpath/backends/shm/device_reach.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>

namespace towpath::backends::shm {

using backend::SegmentCursor;
using backend::SliceTask;

namespace {

constexpr std::size_t kCopiesPerBatch = 1024;

}  // namespace

Result<device::Driver*> DeviceReach::driver() {
  if (driver_ == nullptr) {
    TOWPATH_TRY(driver_, source_.open());
  }
  return driver_.get();
}

Result<DeviceReach::Opened*> DeviceReach::device_of(unsigned ordinal) {
  if (const auto known = devices_.find(ordinal); known != devices_.end()) return &known->second;
  TOWPATH_TRY(device::Driver * from, driver());
  TOWPATH_TRY(auto device, from->open(ordinal));
  auto stream = std::make_shared<device::CopyStream>(device);
  const Opened opened{.device = std::move(device), .stream = std::move(stream)};
  return &devices_.emplace(ordinal, opened).first->second;
}

// Processes may see other devices under the same ordinals: a GPU is known by its place.
Result<unsigned> DeviceReach::ordinal_of(const DeviceExtent& what, std::uint64_t otherwise) {
  if (what.pci_address.empty()) return device::ordinal_of(otherwise);
  TOWPATH_TRY(device::Driver * from, driver());
  TOWPATH_TRY(const unsigned count, from->device_count());
  for (unsigned ordinal = 0; ordinal < count; ++ordinal) {
    const auto info = from->describe(ordinal);
    if (info.ok() && info->pci_address == what.pci_address) return ordinal;
  }
  return error(Code::not_found,
               cat("this process does not see the peer's device ", printable(what.pci_address)),
               "let both see it (CUDA_VISIBLE_DEVICES), or use ucx");
}

Result<DeviceExtent> DeviceReach::offer(const RegionDescriptor& region) {
  TOWPATH_TRY(const Opened* on, device_of(device::ordinal_of(region.device_id)));
  TOWPATH_TRY(const device::ExportedMemory memory, on->device->export_at(region.address));
  if (!range_fits(memory.offset, region.length, memory.size_bytes))
    return error(Code::unsupported,
                 cat(to_string(region),
                     " is more than one allocation, of which each is exported "
                     "by itself"),
                 "register what lies in one");
  return DeviceExtent{.memory = memory, .pci_address = on->device->info().pci_address};
}

Result<std::shared_ptr<ReachedDevice>> DeviceReach::map(const DeviceExtent& what,
                                                        const Opened& on) {
  std::erase_if(reached_, [](const auto& one) { return one.expired(); });
  for (const auto& one : reached_)
    if (auto known = one.lock(); known != nullptr && known->what.handle == what.memory.handle &&
                                 known->what.size_bytes == what.memory.size_bytes)
      return known;
  TOWPATH_TRY(auto mapped, on.device->import_memory(what.memory.handle, what.memory.size_bytes));
  auto reached = std::make_shared<ReachedDevice>();
  reached->what = what.memory;
  reached->begin = mapped.address();
  reached->mapped = std::move(mapped);
  reached->stream = on.stream;
  reached_.push_back(reached);
  return reached;
}

Result<std::shared_ptr<ReachedDevice>> DeviceReach::open(const ShmKey& key,
                                                         const RegionDescriptor& region,
                                                         Where where) {
  const DeviceExtent& what = *key.device;
  TOWPATH_TRY(const unsigned ordinal, ordinal_of(what, region.device_id));
  TOWPATH_TRY(const Opened* on, device_of(ordinal));
  if (where == Where::there) return map(what, *on);
  // Another backend of this process: what it says is held against the driver's own word.
  TOWPATH_TRY(const device::ExportedMemory own, on->device->export_at(region.address));
  if (!range_fits(own.offset, region.length, own.size_bytes))
    return error(Code::corrupt, cat(to_string(region), " is not within memory of the device"));
  auto reached = std::make_shared<ReachedDevice>();
  reached->what = what.memory;
  reached->begin = key.address - what.memory.offset;  // so that nothing is shifted
  reached->stream = on->stream;
  return reached;
}

void DeviceReach::move(SliceTask& task, const ReachedDevice& on, std::uint64_t shift) {
  const backend::Memory* const remote = task.at().segment().remote;
  const bool pulls = task.request().op == TransferOp::read;
  copies_.clear();
  std::uint64_t budget = backend::kSliceBytes;
  for (SegmentCursor ahead = task.at(); budget > 0 && copies_.size() < kCopiesPerBatch &&
                                        !ahead.done() && ahead.segment().remote == remote;) {
    const std::uint64_t length = std::min(ahead.left(), budget);
    const std::uint64_t here = ahead.local_address();
    const std::uint64_t there = ahead.remote_address() + shift;
    copies_.push_back(
        {.target = pulls ? here : there, .source = pulls ? there : here, .length = length});
    budget -= std::min(budget, std::max(length, backend::kPieceCost));
    ahead.advance(length);
  }
  if (const Status done = on.stream->copy_and_wait(copies_); !done.ok())
    return task.fail_extent(done);
  for (const device::Copy& one : copies_) task.moved(one.length);
}

}  // namespace towpath::backends::shm
