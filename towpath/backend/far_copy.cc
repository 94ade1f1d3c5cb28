#include <cstring>

#include <towpath/backend/far_copy.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace towpath::backend {

#ifdef __SSE2__
namespace {

constexpr std::size_t kFarLine = 64;
constexpr std::size_t kAhead =
    16 * kFarLine;  // how far the source is asked for before it is loaded
constexpr std::size_t kWorthwhile = 16 * kFarLine;  // below it a copy is over before that helps

/// One line; `target` is a multiple of 16.
void stream_line(std::byte* target, const std::byte* source) noexcept {
  _mm_prefetch(reinterpret_cast<const char*>(source + kAhead), _MM_HINT_T0);
  const auto* const from = reinterpret_cast<const __m128i*>(source);
  auto* const to = reinterpret_cast<__m128i*>(target);
  const __m128i a = _mm_loadu_si128(from);
  const __m128i b = _mm_loadu_si128(from + 1);
  const __m128i c = _mm_loadu_si128(from + 2);
  const __m128i d = _mm_loadu_si128(from + 3);
  _mm_stream_si128(to, a);
  _mm_stream_si128(to + 1, b);
  _mm_stream_si128(to + 2, c);
  _mm_stream_si128(to + 3, d);
}

bool overlap(const std::byte* one, const std::byte* other, std::size_t length) noexcept {
  const auto a = reinterpret_cast<std::uintptr_t>(one);
  const auto b = reinterpret_cast<std::uintptr_t>(other);
  return (a < b ? b - a : a - b) < length;
}

}  // namespace

void far_copy(std::byte* target, const std::byte* source, std::size_t length) noexcept {
  if (length < kWorthwhile || overlap(target, source, length)) {
    std::memmove(target, source, length);
    return;
  }
  // Whole lines of the target, so that none is written in two parts.
  const std::size_t head =
      (kFarLine - reinterpret_cast<std::uintptr_t>(target) % kFarLine) % kFarLine;
  std::memcpy(target, source, head);
  std::size_t at = head;
  for (; at + kFarLine <= length; at += kFarLine) stream_line(target + at, source + at);
  std::memcpy(target + at, source + at, length - at);
  _mm_sfence();  // such stores are in no order with others
}
#else
void far_copy(std::byte* target, const std::byte* source, std::size_t length) noexcept {
  std::memmove(target, source, length);
}
#endif

}  // namespace towpath::backend
