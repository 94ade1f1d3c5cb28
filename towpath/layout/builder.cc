#include <utility>

#include <towpath/core/format.h>
#include <towpath/layout/allocation.h>
#include <towpath/layout/builder.h>
#include <towpath/memory/view.h>

namespace towpath::layout {
namespace {

using memory::SharedRegion;

std::string where_text(const memory::Allocation& what) {
  if (what.kind == MemoryKind::device && what.device != nullptr)
    return cat(" on device ", what.device->info().ordinal);
  if (what.kind == MemoryKind::disk) return cat(" at ", printable(what.disk.path));
  if (what.kind == MemoryKind::object) return cat(" '", printable(what.object.key), "'");
  return {};
}

/// One registered region of at least `size_bytes`.
Result<SharedRegion> allocate_registered(memory::Allocation what, std::uint64_t size_bytes,
                                         memory::Registrar& registrar) {
  what.size_bytes = size_bytes;
  if (what.disk.path.empty()) what.disk.path = kDefaultDiskDirectory;
  auto allocated = memory::allocate(what);
  if (!allocated.ok())
    return error(allocated.code(),
                 cat("failed to allocate ", name_of(what.kind), " memory (", size_bytes, " bytes)",
                     where_text(what), " for a layout"),
                 std::string(allocated.status().hint()))
        .because(allocated.status());
  return register_region(*std::move(allocated), registrar);
}

/// `base` cut into regions of `sizes`. What needs all of it gets the base itself.
Result<std::vector<SharedRegion>> views_of(const SharedRegion& base,
                                           std::span<const std::uint64_t> sizes,
                                           std::uint64_t alignment) {
  const RegionDescriptor self = base->descriptor();
  TOWPATH_TRY(const std::vector<memory::Part> parts,
              cut({.address = self.address, .length = self.length}, sizes, alignment));
  std::vector<SharedRegion> regions;
  for (const memory::Part& part : parts) {
    if (part == memory::Part{.offset = 0, .size_bytes = self.length}) {
      regions.push_back(base);
      continue;
    }
    TOWPATH_TRY(auto view, memory::View::create(base, part));
    regions.push_back(std::move(view));
  }
  return regions;
}

/// An object for each region: a store has no part of one to give to another.
Result<std::vector<SharedRegion>> allocate_objects(memory::Allocation what,
                                                   std::span<const std::uint64_t> sizes,
                                                   memory::Registrar& registrar) {
  const std::string key = std::move(what.object.key);
  if (key.empty())
    return error(Code::invalid_argument, "the objects of a layout have no key to begin theirs with",
                 "name the cache: its blocks become KEY/0, KEY/1 and so on");
  std::vector<SharedRegion> regions;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    what.object = {.bucket = std::move(what.object.bucket), .key = cat(key, "/", i)};
    TOWPATH_TRY(regions.emplace_back(), allocate_registered(what, sizes[i], registrar));
  }
  return regions;
}

Result<std::vector<SharedRegion>> allocate_regions(const BuildRequest& request,
                                                   const memory::Allocation& what,
                                                   const Geometry& geometry) {
  const std::vector<std::uint64_t> sizes = geometry.required_sizes();
  if (what.kind == MemoryKind::object) return allocate_objects(what, sizes, *request.registrar);
  TOWPATH_TRY(const std::uint64_t reserve, reserve_bytes(sizes, request.config.alignment));
  TOWPATH_TRY(const SharedRegion base, allocate_registered(what, reserve, *request.registrar));
  return views_of(base, sizes, request.config.alignment);
}

std::string_view regions_wanted(RegionRule rule) {
  switch (rule) {
    case RegionRule::single: return "give one region for the whole cache";
    case RegionRule::per_layer: return "give one region per layer";
    case RegionRule::per_block: return "give one region per block";
    case RegionRule::by_axes: break;
  }
  return "give a region for each that the region steps lead to";
}

Status check_count(std::size_t provided, const Geometry& geometry) {
  if (provided == geometry.num_regions) return {};
  return error(Code::invalid_argument,
               cat("provided memory count (", provided, ") does not match required allocations (",
                   geometry.num_regions, ")"),
               std::string(regions_wanted(geometry.regions)));
}

}  // namespace

Result<SharedRegion> register_region(SharedRegion region, memory::Registrar& registrar) {
  if (region == nullptr)
    return error(Code::invalid_argument, "the memory region is null",
                 "pass the region to register");
  const memory::Registration* known = region->registration();
  if (known != nullptr && known->is_registered() && known->agent_name() == registrar.name())
    return region;
  auto registered = memory::register_with(std::move(region), registrar);
  if (!registered.ok()) return registered.status();
  return std::make_shared<memory::Registered<const memory::Region>>(*std::move(registered));
}

Result<PhysicalLayout> build_layout(BuildRequest request) {
  TOWPATH_TRY(const Geometry geometry, Geometry::make(request.config, request.kind, request.axes));
  std::vector<SharedRegion> regions;
  if (const auto* what = std::get_if<memory::Allocation>(&request.memory)) {
    TOWPATH_TRY(regions, allocate_regions(request, *what, geometry));
  } else {
    regions = std::get<std::vector<SharedRegion>>(std::move(request.memory));
    TOWPATH_TRY(check_count(regions.size(), geometry));
  }
  return PhysicalLayout::make({.config = request.config,
                               .kind = request.kind,
                               .axes = request.axes,
                               .agent_name = request.registrar->name(),
                               .regions = std::move(regions)});
}

}  // namespace towpath::layout
