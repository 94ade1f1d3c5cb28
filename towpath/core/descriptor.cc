#include <algorithm>

#include <towpath/core/check.h>
#include <towpath/core/checked.h>
#include <towpath/core/descriptor.h>
#include <towpath/core/format.h>

namespace towpath {

DescriptorList::DescriptorList(MemoryKind kind, std::span<const Descriptor> descriptors)
    : kind_(kind) {
  reserve(descriptors.size());
  for (const Descriptor& descriptor : descriptors) {
    Status status = add(descriptor);
    TOWPATH_CHECK(status.ok(), "use add() for descriptors that come from outside");
  }
}

Status DescriptorList::add(const Descriptor& descriptor) {
  return add(StridedDescriptor{.address = descriptor.address,
                               .length = descriptor.length,
                               .stride = 0,
                               .count = 1,
                               .device_id = descriptor.device_id});
}

Status DescriptorList::add(const StridedDescriptor& descriptor) {
  if (descriptor.count == 0)
    return error(Code::invalid_argument, "a strided descriptor of 0 extents",
                 "leave it out of the list");
  const auto reach = checked_multiply(descriptor.stride, descriptor.count - 1);
  const auto last = reach ? checked_add(descriptor.address, *reach) : reach;
  const auto end = last ? checked_add(*last, descriptor.length) : last;
  const auto bytes = checked_multiply(descriptor.length, descriptor.count);
  const auto total = bytes ? checked_add(total_bytes_, *bytes) : bytes;
  const auto count = checked_add(size(), descriptor.count);
  if (!end || !total || !count) {
    return error(Code::out_of_range,
                 cat("descriptor of ", descriptor.count, " x ", descriptor.length, " bytes, ",
                     descriptor.stride, " apart from ", hex(descriptor.address),
                     ", goes past the end of 64-bit space"),
                 "check address, stride and count");
  }
  entries_.push_back(descriptor);
  first_.push_back(*count);
  total_bytes_ = *total;
  return {};
}

void DescriptorList::reserve(std::size_t entries) {
  entries_.reserve(entries);
  first_.reserve(entries + 1);
}

void DescriptorList::clear() noexcept {
  entries_.clear();
  first_.resize(1);
  total_bytes_ = 0;
}

Descriptor DescriptorList::at(std::uint64_t index) const {
  TOWPATH_CHECK(index < size(), "descriptor index past the end of its list");
  const auto after = std::ranges::upper_bound(first_, index);
  const auto entry = static_cast<std::size_t>(after - first_.begin()) - 1;
  return entries_[entry].at(index - first_[entry]);
}

bool RegionDescriptor::covers(const Descriptor& what) const noexcept {
  return what.device_id == device_id && what.address >= address &&
         range_fits(what.address - address, what.length, length);
}

std::string to_string(MemoryKind kind, const Descriptor& descriptor) {
  return cat(name_of(kind), " [", hex(descriptor.address), ", +", descriptor.length, ") device ",
             descriptor.device_id);
}

std::string to_string(const RegionDescriptor& region) {
  return to_string(region.kind, Descriptor{region.address, region.length, region.device_id});
}

}  // namespace towpath
