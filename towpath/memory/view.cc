#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/view.h>

namespace towpath::memory {
namespace {

Status check_base(const SharedRegion& base) {
  if (base != nullptr) return {};
  return error(Code::invalid_argument, "a view of no region", "pass the region to view");
}

}  // namespace

Result<RegionDescriptor> describe_part(const RegionDescriptor& whole, const Part& part) {
  if (!checked_add(part.offset, part.size_bytes))
    return error(Code::out_of_range,
                 cat("offset overflow: ", part.size_bytes, " bytes at offset ", part.offset),
                 "check offset and size");
  if (!range_fits(part.offset, part.size_bytes, whole.length))
    return error(Code::out_of_range,
                 cat("exceeds base bounds: [", part.offset, ", ", part.offset + part.size_bytes,
                     ") of ", whole.length, " bytes in ", to_string(whole)),
                 "stay within the base");
  // The region's own end does not wrap, so neither does the part's.
  RegionDescriptor described = whole;
  described.address += part.offset;
  described.length = part.size_bytes;
  if (whole.kind == MemoryKind::system && whole.fd >= 0) described.fd_offset += part.offset;
  return described;
}

Result<std::shared_ptr<View>> View::create(SharedRegion base, const Part& part) {
  TOWPATH_TRY(check_base(base));
  TOWPATH_TRY(RegionDescriptor self, describe_part(base->descriptor(), part));
  return std::make_shared<View>(Private{}, std::move(base), std::move(self), part.offset);
}

Result<std::shared_ptr<View>> View::at_address(SharedRegion base, const Descriptor& part) {
  TOWPATH_TRY(check_base(base));
  const RegionDescriptor whole = base->descriptor();
  if (part.device_id != whole.device_id || part.address < whole.address)
    return error(Code::out_of_range,
                 cat("address out of bounds: ", towpath::to_string(whole.kind, part), " is not in ",
                     to_string(whole)),
                 "pass an address inside the base, and the base's device");
  return create(std::move(base), {part.address - whole.address, part.length});
}

}  // namespace towpath::memory
