#include <array>
#include <cstdint>

#include <towpath/core/format.h>
#include <towpath/net/base64.h>

namespace towpath::net {

namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNone = 0xff;

constexpr std::array<std::uint8_t, 256> make_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNone);
  for (std::uint8_t i = 0; i < 64; ++i) values[static_cast<unsigned char>(kLetters[i])] = i;
  return values;
}
constexpr auto kValues = make_values();

}  // namespace

std::string to_base64(ConstByteSpan bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8U | (i < have ? static_cast<std::uint32_t>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text.push_back(i <= have ? kLetters[group >> (18 - 6 * i) & 63U] : '=');
  }
  return text;
}

Result<Bytes> from_base64(std::string_view text) {
  if (text.size() % 4 != 0)
    return error(Code::corrupt, cat("base64 of ", text.size(), " letters, no multiple of 4"));
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  Bytes bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const bool is_last = at + 4 == text.size();
    const std::size_t letters = is_last ? 4 - padding : 4;
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint8_t value =
          i < letters ? kValues[static_cast<unsigned char>(text[at + i])] : std::uint8_t{0};
      if (value == kNone) return error(Code::corrupt, cat("no base64 at letter ", at + i));
      group = group << 6U | value;
    }
    // The bits that padding leaves over are zero, so that each value has one text.
    if (letters < 4 && (group & ((1U << (8 * (4 - letters))) - 1)) != 0)
      return error(Code::corrupt, "base64 with bits behind its end");
    for (std::size_t i = 0; i + 1 < letters; ++i)
      bytes.push_back(static_cast<std::byte>(group >> (16 - 8 * i)));
  }
  return bytes;
}

}  // namespace towpath::net
