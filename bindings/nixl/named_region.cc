#include "bindings/nixl/named_region.h"

#include <algorithm>
#include <array>
#include <climits>
#include <string_view>
#include <utility>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/borrowed.h>

namespace towpath::nixl {
namespace {

/// What lies in a file, store or device, by whatever names it.
class NamedRegion final : public memory::Region {
 public:
  explicit NamedRegion(RegionDescriptor self) : self_(std::move(self)) {}
  RegionDescriptor descriptor() const override { return self_; }

 private:
  const RegionDescriptor self_;
};

bool is_path_with_mode(std::string_view metadata) {
  constexpr std::array<std::string_view, 4> kBegins = {"ro:", "ro,", "rw:", "rw,"};
  return std::ranges::any_of(kBegins, [&](auto begin) { return metadata.starts_with(begin); });
}

// Whole files, objects and devices: as far as an offset can go.
std::uint64_t length_of(const Descriptor& where) {
  constexpr std::uint64_t kFarthest = INT64_MAX;
  return where.length == 0 && where.address < kFarthest ? kFarthest - where.address : where.length;
}

RegionDescriptor plain(MemoryKind kind, const NamedEntry& entry) {
  return {.kind = kind,
          .address = entry.where.address,
          .length = entry.where.length,
          .device_id = entry.where.device_id,
          .key = entry.metadata};
}

}  // namespace

Result<memory::SharedRegion> make_region(MemoryKind kind, const NamedEntry& entry) {
  const Descriptor& where = entry.where;
  if (is_host_addressable(kind) || kind == MemoryKind::device) {
    TOWPATH_TRY(auto region, memory::BorrowedRegion::create({.kind = kind,
                                                             .address = where.address,
                                                             .size_bytes = where.length,
                                                             .device_id = where.device_id}));
    return region;
  }
  RegionDescriptor self = plain(kind, entry);
  self.length = length_of(where);
  if (self.length == 0 || !checked_add(self.address, self.length))
    return error(Code::out_of_range, cat("no such region: ", to_string(self)));
  if (kind == MemoryKind::disk && !is_path_with_mode(entry.metadata)) {
    if (where.device_id > INT_MAX)
      return error(Code::invalid_argument, cat("no file descriptor: ", where.device_id),
                   "pass an open file's number as dev_id, or a path as metadata: rw:PATH");
    self.fd = static_cast<int>(where.device_id);
  }
  return std::make_shared<NamedRegion>(std::move(self));
}

RegionDescriptor describe(MemoryKind kind, const NamedEntry& entry) {
  RegionDescriptor what = plain(kind, entry);
  if (kind == MemoryKind::disk && entry.metadata.empty() && entry.where.device_id <= INT_MAX)
    what.fd = static_cast<int>(entry.where.device_id);
  return what;
}

}  // namespace towpath::nixl
