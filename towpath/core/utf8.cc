#include <cstddef>

#include <towpath/core/utf8.h>

namespace towpath {
namespace {

constexpr bool is_between(unsigned char byte, unsigned char low, unsigned char high) noexcept {
  return byte >= low && byte <= high;
}

/// Bytes of a character that begins so; 0: none does.
constexpr std::size_t length_after(unsigned char lead) noexcept {
  if (lead < 0x80) return 1;
  if (is_between(lead, 0xC2, 0xDF)) return 2;
  if (is_between(lead, 0xE0, 0xEF)) return 3;
  return is_between(lead, 0xF0, 0xF4) ? 4 : 0;
}

/// What some first bytes leave to the second: no longer forms, no surrogates, none too large.
constexpr bool may_follow(unsigned char lead, unsigned char second) noexcept {
  switch (lead) {
    case 0xE0: return is_between(second, 0xA0, 0xBF);
    case 0xED: return is_between(second, 0x80, 0x9F);
    case 0xF0: return is_between(second, 0x90, 0xBF);
    case 0xF4: return is_between(second, 0x80, 0x8F);
    default: return is_between(second, 0x80, 0xBF);
  }
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = length_after(at(i));
    if (length == 0 || text.size() - i < length) return false;
    if (length > 1 && !may_follow(at(i), at(i + 1))) return false;
    for (std::size_t k = 2; k < length; ++k)
      if (!is_between(at(i + k), 0x80, 0xBF)) return false;
    i += length;
  }
  return true;
}

}  // namespace towpath
