#include <utility>

#include <towpath/core/format.h>
#include <towpath/layout/layout_codec.h>
#include <towpath/layout/physical_layout.h>
#include <towpath/memory/registrar.h>
#include <towpath/memory/slice.h>

namespace towpath::layout {
namespace {

bool is_object(const RegionDescriptor& region) { return region.kind == MemoryKind::object; }

Location location_of(const RegionDescriptor& region) {
  return {.kind = region.kind, .device_id = is_object(region) ? 0 : region.device_id};
}

RegionExtent extent_of(const RegionDescriptor& region) {
  return {.address = region.address,
          .length = region.length,
          .device_id = is_object(region) ? region.device_id : 0};
}

Status check_registered(const memory::Region& region, std::size_t index,
                        const std::string& agent_name) {
  const memory::Registration* registration = region.registration();
  if (registration == nullptr || !registration->is_registered())
    return error(Code::invalid_argument,
                 cat("provided memory region at index ", index, " (",
                     to_string(region.descriptor()), ") is not registered"),
                 "register it with the agent first, or use with_memory_regions()");
  if (registration->agent_name() == agent_name) return {};
  return error(Code::invalid_argument,
               cat("provided memory region at index ", index, " is registered with agent '",
                   printable(registration->agent_name()), "', the layout is built for '",
                   printable(agent_name), "'"),
               "register it with the agent of the builder");
}

/// Where the regions are, all of them.
Result<Location> common_location(const std::vector<memory::SharedRegion>& regions) {
  if (regions.empty())
    return error(Code::invalid_argument,
                 "no memory regions available to determine storage location",
                 "give one region, or one per layer");
  const Location first = location_of(regions.front()->descriptor());
  for (const memory::SharedRegion& region : regions) {
    const Location location = location_of(region->descriptor());
    if (location != first)
      return error(Code::invalid_argument,
                   cat("all memory regions must share the same storage location (found ",
                       to_string(first), " and ", to_string(location), ")"),
                   "build a layout per location");
  }
  return first;
}

}  // namespace

Result<PhysicalLayout> PhysicalLayout::make(Parts parts) {
  for (std::size_t i = 0; i < parts.regions.size(); ++i) {
    if (parts.regions[i] == nullptr)
      return error(Code::invalid_argument, cat("memory region at index ", i, " is null"),
                   "give every layer a region");
    TOWPATH_TRY(check_registered(*parts.regions[i], i, parts.agent_name));
  }
  TOWPATH_TRY(const Location location, common_location(parts.regions));
  LayoutDescriptor descriptor{.config = parts.config,
                              .kind = parts.kind,
                              .axes = parts.axes,
                              .location = location,
                              .agent = {.name = std::move(parts.agent_name), .incarnation = 0},
                              .regions = {}};
  for (const memory::SharedRegion& region : parts.regions)
    descriptor.regions.push_back(extent_of(region->descriptor()));
  TOWPATH_TRY(Layout layout, Layout::make(std::move(descriptor)));
  return PhysicalLayout(std::move(layout), std::move(parts.regions));
}

LayoutMetadata PhysicalLayout::metadata() const {
  return {.agent_name = layout_.agent().name,
          .kind = location().kind,
          .device_id = location().device_id};
}

Result<ByteSpan> PhysicalLayout::bytes(PageIndex page) const {
  TOWPATH_TRY(check_pages(layout_));
  TOWPATH_TRY(const PagePlace place, layout_.geometry().place(page));
  return memory::slice(*regions_[place.region],
                       {.offset = place.offset, .size_bytes = layout_.geometry().page_bytes()});
}

LayoutDescriptor PhysicalLayout::descriptor(std::uint64_t incarnation) const {
  LayoutDescriptor descriptor = layout_.descriptor();
  descriptor.agent.incarnation = incarnation;
  return descriptor;
}

Result<Bytes> PhysicalLayout::serialize(std::uint64_t incarnation) const {
  return encode(descriptor(incarnation));
}

}  // namespace towpath::layout
