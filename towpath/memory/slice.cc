#include <algorithm>

#include <towpath/memory/slice.h>
#include <towpath/memory/view.h>

namespace towpath::memory {

Result<ByteSpan> slice(const Region& region, const Part& part) {
  const RegionDescriptor whole = region.descriptor();
  if (!is_host_addressable(whole.kind))
    return error(Code::unsupported,
                 cat("this process cannot touch bytes of ", to_string(whole), " directly"),
                 "move them to system memory with a transfer");
  TOWPATH_TRY(RegionDescriptor described, describe_part(whole, part));
  return bytes_at(described.address, described.length);
}

Status fill(const Region& region, const Part& part, std::byte value) {
  TOWPATH_TRY(ByteSpan bytes, slice(region, part));
  std::ranges::fill(bytes, value);
  return {};
}

}  // namespace towpath::memory
