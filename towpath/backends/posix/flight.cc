#include <algorithm>
#include <cstring>

#include <towpath/backends/posix/flight.h>

namespace towpath::backends::posix {
namespace {

/// Calls `visit(bytes of the part)` for what lies in [from, to) of all parts.
template <typename Visit>
void for_parts(const Flight& flight, std::uint64_t from, std::uint64_t to, const Visit& visit) {
  std::uint64_t at = 0;
  for (std::uint32_t i = 0; i < flight.piece.parts && at < to; ++i) {
    const sys::IoPart& part = flight.parts[i];
    const std::uint64_t end = at + part.size_bytes;
    if (end > from) {
      const std::uint64_t skip = from > at ? from - at : 0;
      visit(bytes_at(address_of(part.data) + skip, std::min(end, to) - at - skip));
    }
    at = end;
  }
}

}  // namespace

BounceWindow bounce_window(const Flight& flight) noexcept {
  const std::uint64_t unit = flight.file().alignment();
  const std::uint64_t skip = flight.file_offset() % unit;
  const std::uint64_t wanted = skip + flight.remaining();
  const std::uint64_t padded = wanted + (unit - wanted % unit) % unit;
  return {flight.file_offset() - skip, flight.bounce.bytes.first(padded), skip};
}

std::uint32_t select_parts(Flight& flight) noexcept {
  std::uint32_t count = 0;
  for_parts(flight, flight.done, flight.limit,
            [&](ByteSpan bytes) { flight.active[count++] = sys::IoPart::of(bytes); });
  return count;
}

void scatter(const Flight& flight, ConstByteSpan from) noexcept {
  const std::uint64_t to = std::min(flight.limit, flight.done + from.size());
  for_parts(flight, flight.done, to, [&](ByteSpan bytes) {
    std::memcpy(bytes.data(), from.data(), bytes.size());
    from = from.subspan(bytes.size());
  });
}

}  // namespace towpath::backends::posix
