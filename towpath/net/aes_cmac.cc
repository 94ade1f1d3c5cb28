// AES by the processor's instructions, and CMAC above it. Keys are expanded by the same
// instructions: a table of bytes would show the key to a program that watches the cache.
#include <algorithm>
#include <cstring>

#include <towpath/core/check.h>
#include <towpath/net/mac.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define TOWPATH_AES __attribute__((target("aes,sse4.1")))
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define TOWPATH_AES __attribute__((target("+crypto")))
#endif

namespace towpath::net {

#ifdef TOWPATH_AES
namespace {

#if defined(__x86_64__)
using Vector = __m128i;

bool has_aes() noexcept {
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("sse4.1") != 0;
}
TOWPATH_AES Vector load(const void* from) noexcept {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
TOWPATH_AES void store(void* to, Vector value) noexcept {
  _mm_storeu_si128(static_cast<__m128i*>(to), value);
}
TOWPATH_AES Vector add(Vector a, Vector b) noexcept { return _mm_xor_si128(a, b); }

TOWPATH_AES Vector encrypt(const void* round_keys, Vector block) noexcept {
  const auto* const keys = static_cast<const __m128i*>(round_keys);
  block = _mm_xor_si128(block, keys[0]);
#pragma GCC unroll 9
  for (int round = 1; round < 10; ++round) block = _mm_aesenc_si128(block, keys[round]);
  return _mm_aesenclast_si128(block, keys[10]);
}
/// The S-box on each byte of a word. The last round does it, and moves bytes between columns, which
/// are all the same here.
TOWPATH_AES std::uint32_t substitute(std::uint32_t word) noexcept {
  const __m128i columns = _mm_set1_epi32(static_cast<int>(word));
  return static_cast<std::uint32_t>(
      _mm_cvtsi128_si32(_mm_aesenclast_si128(columns, _mm_setzero_si128())));
}

#else
using Vector = uint8x16_t;

bool has_aes() noexcept { return (::getauxval(AT_HWCAP) & HWCAP_AES) != 0; }
TOWPATH_AES Vector load(const void* from) noexcept {
  return vld1q_u8(static_cast<const std::uint8_t*>(from));
}
TOWPATH_AES void store(void* to, Vector value) noexcept {
  vst1q_u8(static_cast<std::uint8_t*>(to), value);
}
TOWPATH_AES Vector add(Vector a, Vector b) noexcept { return veorq_u8(a, b); }

/// An instruction of this processor adds the key of a round before it, not behind.
TOWPATH_AES Vector encrypt(const void* round_keys, Vector block) noexcept {
  const auto key = [&](int round) {
    return vld1q_u8(static_cast<const std::uint8_t*>(round_keys) + 16 * round);
  };
#pragma GCC unroll 9
  for (int round = 0; round < 9; ++round) block = vaesmcq_u8(vaeseq_u8(block, key(round)));
  return veorq_u8(vaeseq_u8(block, key(9)), key(10));
}
TOWPATH_AES std::uint32_t substitute(std::uint32_t word) noexcept {
  const uint8x16_t columns = vreinterpretq_u8_u32(vdupq_n_u32(word));
  return vgetq_lane_u32(vreinterpretq_u32_u8(vaeseq_u8(columns, vdupq_n_u8(0))), 0);
}
#endif

/// Twice the value of a block, as CMAC counts: big-endian, in the field of x^128 + x^7 + x^2 + x +
/// 1.
void double_block(std::array<std::byte, 16>& block) noexcept {
  const bool carries = (block[0] & std::byte{0x80}) != std::byte{};
  for (std::size_t i = 0; i < 16; ++i)
    block[i] = (block[i] << 1) | (i < 15 ? block[i + 1] >> 7 : std::byte{});
  block[15] ^= carries ? std::byte{0x87} : std::byte{};
}

}  // namespace

TOWPATH_AES void Mac::expand_aes_key() noexcept {
  std::uint32_t words[4 * kRoundKeys];
  std::memcpy(words, keys_[0].bytes.data(), sizeof(Block));
  std::uint32_t constant = 1;
  for (std::size_t i = 4; i < std::size(words); ++i) {
    std::uint32_t word = words[i - 1];
    if (i % 4 == 0) {
      word = substitute(word);
      word = (word >> 8 | word << 24) ^ constant;  // a word's first byte is its lowest here
      constant = constant << 1 ^ (constant >= 0x80 ? 0x11bU : 0U);
    }
    words[i] = words[i - 4] ^ word;
  }
  std::memcpy(keys_.data(), words, sizeof(words));
  Block& whole = keys_[kOfWhole];
  store(whole.bytes.data(), encrypt(keys_.data(), load(Block{}.bytes.data())));
  double_block(whole.bytes);
  keys_[kOfPadded] = whole;
  double_block(keys_[kOfPadded].bytes);
}

TOWPATH_AES Mac::Proof Mac::prove_by_aes(ConstByteSpan bytes) const noexcept {
  Block last;
  Vector chain = load(last.bytes.data());
  for (; bytes.size() > sizeof(Block); bytes = bytes.subspan(sizeof(Block)))
    chain = encrypt(keys_.data(), add(chain, load(bytes.data())));
  const bool is_whole = bytes.size() == sizeof(Block);
  if (!bytes.empty()) std::memcpy(last.bytes.data(), bytes.data(), bytes.size());
  if (!is_whole) last.bytes[bytes.size()] = std::byte{0x80};
  const Vector end =
      add(load(last.bytes.data()), load(keys_[is_whole ? kOfWhole : kOfPadded].bytes.data()));
  Proof proof;
  static_assert(sizeof(Proof) == sizeof(Block));
  store(&proof, encrypt(keys_.data(), add(chain, end)));
  return proof;
}

#else

namespace {
bool has_aes() noexcept { return false; }
}  // namespace
void Mac::expand_aes_key() noexcept { TOWPATH_CHECK(false, "no processor of this kind has it"); }
Mac::Proof Mac::prove_by_aes(ConstByteSpan) const noexcept { return {}; }

#endif

bool Mac::is_available(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::siphash || has_aes();
}

Mac::Mac(Algorithm algorithm, ConstByteSpan key) noexcept : algorithm_(algorithm) {
  std::ranges::copy(key.first(kKeyBytes), keys_[0].bytes.begin());
  if (algorithm != Algorithm::aes_cmac) return;
  TOWPATH_CHECK(has_aes(), "its caller has asked is_available()");
  expand_aes_key();
}

}  // namespace towpath::net
