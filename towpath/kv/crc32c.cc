#include <algorithm>
#include <array>
#include <cstring>

#include <towpath/kv/crc32c.h>

namespace towpath::kv {
namespace {

constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1U) ^ (rest & 1U ? kReversedPolynomial : 0U);
    table[byte] = rest;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

#if defined(__x86_64__)
/// Copies to `to` what it has seen, unless that is null.
template <bool Copies>
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(std::uint32_t crc,
                                                                      std::byte* to,
                                                                      ConstByteSpan bytes) {
  std::uint64_t rest = ~crc;
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    if constexpr (Copies) std::memcpy(to + at, &word, 8);
    rest = __builtin_ia32_crc32di(rest, word);
  }
  auto narrow = static_cast<std::uint32_t>(rest);
  for (; at < bytes.size(); ++at) {
    const std::byte byte = bytes[at];
    if constexpr (Copies) to[at] = byte;
    narrow = __builtin_ia32_crc32qi(narrow, static_cast<std::uint8_t>(byte));
  }
  return ~narrow;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::uint32_t crc, ConstByteSpan bytes) {
  std::uint32_t rest = ~crc;
  for (const std::byte byte : bytes)
    rest = (rest >> 8U) ^ kCrcTable[(rest ^ static_cast<std::uint32_t>(byte)) & 0xffU];
  return ~rest;
}

std::uint32_t crc32c(std::uint32_t crc, ConstByteSpan bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_by_instruction<false>(crc, nullptr, bytes);
#endif
  return crc32c_by_table(crc, bytes);
}

std::uint32_t copy_and_crc32c(std::uint32_t crc, ByteSpan to, ConstByteSpan from) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_by_instruction<true>(crc, to.data(), from);
#endif
  copy_bytes(from, to.data());
  return crc32c_by_table(crc, to.first(from.size()));
}

}  // namespace towpath::kv
