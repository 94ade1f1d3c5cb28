#include <algorithm>
#include <cstring>

#include <xxhash.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <towpath/core/check.h>
#include <towpath/kv/xxh3.h>

namespace towpath::kv {
namespace {

using Sums = Xxh3::Sums;

constexpr std::size_t kStripe = Xxh3::kStripe;
constexpr std::size_t kStripesOfBlock = 16;
constexpr std::size_t kSecretStep = 8;  // bytes, from stripe to stripe

constexpr std::uint32_t kPrime32 = 0x9e3779b1;
constexpr std::uint64_t kPrime64 = 0x9e3779b185ebca87;
constexpr std::array<std::uint64_t, 8> kFirstSums = {
    0xc2b2ae3d,         kPrime64,   0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9,
    0x85ebca77c2b2ae63, 0x85ebca77, 0x27d4eb2f165667c5, kPrime32,
};
// The algorithm's own (xxhash.h: XXH3_kSecret), as numbers; the seed is added to each even one and
// subtracted from each odd one.
constexpr std::array<std::uint64_t, Xxh3::kSecretWords> kSecret = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
    0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
    0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af,
};
constexpr std::size_t kScrambleSecret = sizeof kSecret - kStripe;  // bytes from the begin
constexpr std::size_t kEndSecret = sizeof kSecret - kStripe - 7;   // of the last stripe
constexpr std::size_t kMergeSecret = 11;

/// A run of stripes, with a scramble after each sixteenth of a block.
struct Stripes {
  const std::byte* secret;
  std::byte* to;  // null: they are not copied
  const std::byte* from;
  std::size_t count;
};

#if defined(__x86_64__)

// Stores go through the caches. Past them a copy is faster by a tenth where its bytes come from
// memory, but takes twice as long where they are in the caches. A prefetch made nothing faster.

// With a mask that leaves nothing out: for the plain ones GCC 12 warns that a register is not
// initialized (its bug 105593).
constexpr __mmask8 kAllLanes = 0xff;

__attribute__((target("avx512f"))) __m512i multiply_avx512(__m512i a, __m512i b) {
  return _mm512_maskz_mul_epu32(kAllLanes, a, b);
}

__attribute__((target("avx512f"))) __m512i add_avx512(__m512i acc, __m512i data,
                                                      const void* secret) {
  const __m512i key = _mm512_xor_si512(data, _mm512_loadu_si512(secret));
  const __m512i product = multiply_avx512(key, _mm512_maskz_srli_epi64(kAllLanes, key, 32));
  const __m512i swapped = _mm512_maskz_shuffle_epi32(0xffff, data, _MM_PERM_BADC);
  return _mm512_add_epi64(acc, _mm512_add_epi64(product, swapped));
}

__attribute__((target("avx512f"))) __m512i scramble_avx512(__m512i acc, const void* secret) {
  const __m512i prime = _mm512_set1_epi32(static_cast<int>(kPrime32));
  acc = _mm512_xor_si512(acc, _mm512_maskz_srli_epi64(kAllLanes, acc, 47));
  acc = _mm512_xor_si512(acc, _mm512_loadu_si512(secret));
  const __m512i high = multiply_avx512(_mm512_maskz_srli_epi64(kAllLanes, acc, 32), prime);
  return _mm512_add_epi64(multiply_avx512(acc, prime),
                          _mm512_maskz_slli_epi64(kAllLanes, high, 32));
}

template <bool Copies>
__attribute__((target("avx512f"))) void sum_avx512(Sums& sums, Stripes run) {
  __m512i acc = _mm512_load_si512(sums.lanes.data());
  std::size_t stripe = sums.stripe;
  while (run.count > 0) {
    const std::size_t end = std::min(stripe + run.count, kStripesOfBlock);
    run.count -= end - stripe;
    for (; stripe < end; ++stripe, run.from += kStripe) {
      const __m512i data = _mm512_loadu_si512(run.from);
      if constexpr (Copies) {
        _mm512_storeu_si512(run.to, data);
        run.to += kStripe;
      }
      acc = add_avx512(acc, data, run.secret + kSecretStep * stripe);
    }
    if (stripe < kStripesOfBlock) break;
    stripe = 0;
    acc = scramble_avx512(acc, run.secret + kScrambleSecret);
  }
  _mm512_store_si512(sums.lanes.data(), acc);
  sums.stripe = stripe;
}

__attribute__((target("avx2"))) __m256i load_avx2(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

__attribute__((target("avx2"))) __m256i add_avx2(__m256i acc, __m256i data, const void* secret) {
  const __m256i key = _mm256_xor_si256(data, load_avx2(secret));
  const __m256i product = _mm256_mul_epu32(key, _mm256_srli_epi64(key, 32));
  return _mm256_add_epi64(acc, _mm256_add_epi64(product, _mm256_shuffle_epi32(data, 0x4e)));
}

__attribute__((target("avx2"))) __m256i scramble_avx2(__m256i acc, const void* secret) {
  const __m256i prime = _mm256_set1_epi32(static_cast<int>(kPrime32));
  acc = _mm256_xor_si256(acc, _mm256_srli_epi64(acc, 47));
  acc = _mm256_xor_si256(acc, load_avx2(secret));
  const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(acc, 32), prime);
  return _mm256_add_epi64(_mm256_mul_epu32(acc, prime), _mm256_slli_epi64(high, 32));
}

template <bool Copies>
__attribute__((target("avx2"))) void sum_avx2(Sums& sums, Stripes run) {
  constexpr std::size_t kHalf = kStripe / 2;
  auto* const lanes = reinterpret_cast<__m256i*>(sums.lanes.data());
  __m256i low = _mm256_load_si256(lanes), high = _mm256_load_si256(lanes + 1);
  std::size_t stripe = sums.stripe;
  while (run.count > 0) {
    const std::size_t end = std::min(stripe + run.count, kStripesOfBlock);
    run.count -= end - stripe;
    for (; stripe < end; ++stripe, run.from += kStripe) {
      const __m256i first = load_avx2(run.from), second = load_avx2(run.from + kHalf);
      if constexpr (Copies) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(run.to), first);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(run.to + kHalf), second);
        run.to += kStripe;
      }
      const std::byte* const secret = run.secret + kSecretStep * stripe;
      low = add_avx2(low, first, secret);
      high = add_avx2(high, second, secret + kHalf);
    }
    if (stripe < kStripesOfBlock) break;
    stripe = 0;
    low = scramble_avx2(low, run.secret + kScrambleSecret);
    high = scramble_avx2(high, run.secret + kScrambleSecret + kHalf);
  }
  _mm256_store_si256(lanes, low);
  _mm256_store_si256(lanes + 1, high);
  sums.stripe = stripe;
}

void sum_stripes(Xxh3::Instructions instructions, Sums& sums, const Stripes& run) {
  const bool copies = run.to != nullptr;
  if (instructions == Xxh3::Instructions::avx512)
    copies ? sum_avx512<true>(sums, run) : sum_avx512<false>(sums, run);
  else
    copies ? sum_avx2<true>(sums, run) : sum_avx2<false>(sums, run);
}

#else

void sum_stripes(Xxh3::Instructions, Sums&, const Stripes&) {
  TOWPATH_CHECK(false, "a processor that was not asked whether it can");
}

#endif

/// Both halves of the product.
std::uint64_t multiply_and_fold(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

std::uint64_t merge(const Sums& sums, const std::byte* secret, std::uint64_t total) {
  std::array<std::uint64_t, 8> words{};
  std::memcpy(words.data(), secret + kMergeSecret, sizeof words);
  std::uint64_t value = total * kPrime64;
  for (std::size_t i = 0; i < words.size(); i += 2)
    value += multiply_and_fold(sums.lanes[i] ^ words[i], sums.lanes[i + 1] ^ words[i + 1]);
  value = (value ^ value >> 37U) * 0x165667919e3779f9;
  return value ^ value >> 32U;
}

}  // namespace

bool Xxh3::is_possible() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

Xxh3::Instructions Xxh3::best() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0) return Instructions::avx512;
#endif
  return Instructions::avx2;
}

Xxh3::Xxh3(std::uint64_t seed, Instructions instructions)
    : seed_(seed), instructions_(instructions) {
  for (std::size_t i = 0; i < kSecretWords; ++i)
    secret_[i] = kSecret[i] + (i % 2 == 0 ? seed : -seed);
  begin();
}

void Xxh3::begin() {
  sums_ = {kFirstSums};
  total_ = held_ = 0;
}

void Xxh3::take(std::byte* to, ConstByteSpan from) {
  total_ += from.size();
  if (held_ + from.size() <= kMostHeld) return hold(to, from);
  const auto go_on = [&](std::size_t bytes) {
    if (to != nullptr) to += bytes;
    from = from.subspan(bytes);
  };
  if (held_ > 0) {  // to whole stripes, which are summed: some bytes are left behind them
    const std::size_t missing = (kStripe - held_ % kStripe) % kStripe;
    hold(to, from.first(missing));
    go_on(missing);
    sum(sums_, nullptr, &kept_[kStripe], held_ / kStripe);
    std::memcpy(kept_.data(), &kept_[held_], kStripe);
    held_ = 0;
  }
  if (const std::size_t stripes = (from.size() - 1) / kStripe; stripes > 0) {
    const std::size_t bytes = stripes * kStripe;
    sum(sums_, to, from.data(), stripes);
    std::memcpy(kept_.data(), (to != nullptr ? to : from.data()) + bytes - kStripe, kStripe);
    go_on(bytes);
  }
  hold(to, from);
}

/// What is written is what is held.
void Xxh3::hold(std::byte* to, ConstByteSpan from) {
  if (from.empty()) return;
  std::byte* const here = &kept_[kStripe + held_];
  std::memcpy(here, from.data(), from.size());
  if (to != nullptr) std::memcpy(to, here, from.size());
  held_ += from.size();
}

void Xxh3::sum(Sums& sums, std::byte* to, const std::byte* from, std::size_t stripes) const {
  const auto* const secret = reinterpret_cast<const std::byte*>(secret_.data());
  sum_stripes(instructions_, sums, {secret, to, from, stripes});
}

std::uint64_t Xxh3::finish() {
  std::uint64_t value = 0;
  if (total_ <= kMostHeld) {  // all of it is here: the algorithm has other ways with the shortest
    value = XXH3_64bits_withSeed(&kept_[kStripe], held_, seed_);
  } else {
    const auto* const secret = reinterpret_cast<const std::byte*>(secret_.data());
    sum(sums_, nullptr, &kept_[kStripe], (held_ - 1) / kStripe);
    sums_.stripe = 0;
    sum_stripes(instructions_, sums_, {secret + kEndSecret, nullptr, &kept_[held_], 1});
    value = merge(sums_, secret, total_);
  }
  begin();
  return value;
}

}  // namespace towpath::kv
