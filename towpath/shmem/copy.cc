#include <towpath/shmem/change.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace towpath::shmem {

#if defined(__x86_64__)

void stream_bytes(std::byte* to, const std::byte* from, std::uint64_t count) noexcept {
  constexpr std::uint64_t kLine = 64;
  const bool overlaps = to < from + count && from < to + count;
  if (overlaps) {
    std::memmove(to, from, count);
    return;
  }
  const std::uint64_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  std::memcpy(to, from, head);
  std::uint64_t at = head;
  for (; at + kLine <= count; at += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();  // streaming stores are not ordered with later ones by themselves
  std::memcpy(to + at, from + at, count - at);
}

#else

void stream_bytes(std::byte* to, const std::byte* from, std::uint64_t count) noexcept {
  std::memmove(to, from, count);
}

#endif

}  // namespace towpath::shmem
