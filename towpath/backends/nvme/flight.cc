#include <cstring>

#include <towpath/backends/nvme/flight.h>

namespace towpath::backends::nvme {

Blocks blocks_of(Segments segments, const Position& start, std::uint64_t bytes,
                 std::uint32_t block_bytes) noexcept {
  std::uint64_t first = UINT64_MAX;
  std::uint64_t last = 0;
  for_extents(segments, start, bytes, [&](const Extent& extent) {
    first = std::min(first, extent.remote_address / block_bytes);
    last = std::max(last, (extent.remote_address + extent.length - 1) / block_bytes);
  });
  return {first, last - first + 1};
}

void scatter(Segments segments, const Position& start, std::uint64_t bytes, ConstByteSpan window,
             std::uint64_t begin) noexcept {
  for_extents(segments, start, bytes, [&](const Extent& extent) {
    const ByteSpan into = bytes_at(extent.local_address, extent.length);
    std::memcpy(into.data(), window.subspan(extent.remote_address - begin).data(), into.size());
  });
}

void gather(Segments segments, const Position& start, std::uint64_t bytes, ByteSpan window,
            std::uint64_t begin) noexcept {
  for_extents(segments, start, bytes, [&](const Extent& extent) {
    const ByteSpan from = bytes_at(extent.local_address, extent.length);
    std::memcpy(window.subspan(extent.remote_address - begin).data(), from.data(), from.size());
  });
}

}  // namespace towpath::backends::nvme
