#include <utility>

#include <towpath/backends/object/memories.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {

Result<std::shared_ptr<ObjectRecord>> ObjectTable::add(const RegionDescriptor& region,
                                                       ObjectName name) {
  Standing& standing = by_device_[region.device_id];
  if (standing.registrations > 0 && standing.name != name)
    return error(Code::already_exists,
                 cat("device id ", region.device_id, " stands for ", to_string(standing.name),
                     " and cannot stand for ", to_string(name)),
                 "give each object a device id of its own");
  ++standing.registrations;
  standing.name = name;
  auto record = table_.add(region);
  record->name = std::move(name);
  return record;
}

void ObjectTable::remove(ObjectRecord& record) {
  record.registered = false;
  const auto standing = by_device_.find(record.region.device_id);
  if (--standing->second.registrations == 0) by_device_.erase(standing);
  table_.remove(record.id);
}

}  // namespace towpath::backends::object
