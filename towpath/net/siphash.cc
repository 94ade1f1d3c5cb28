#include <bit>

#include <towpath/net/mac.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {
namespace {

struct State {
  std::uint64_t a, b, c, d;

  void round() noexcept {
    a += b, c += d;
    b = std::rotl(b, 13) ^ a, d = std::rotl(d, 16) ^ c;
    a = std::rotl(a, 32);
    c += b, a += d;
    b = std::rotl(b, 17) ^ c, d = std::rotl(d, 21) ^ a;
    c = std::rotl(c, 32);
  }
  void take(std::uint64_t word) noexcept {
    d ^= word;
    round(), round();
    a ^= word;
  }
  std::uint64_t finish() noexcept {
    for (int i = 0; i < 4; ++i) round();
    return a ^ b ^ c ^ d;
  }
};

}  // namespace

Mac::Proof Mac::prove_by_siphash(ConstByteSpan bytes) const noexcept {
  const ConstByteSpan key = keys_[0].bytes;
  const auto low_key = wire::load<std::uint64_t>(key);
  const auto high_key = wire::load<std::uint64_t>(key.subspan(8));
  State state{low_key ^ 0x736f6d6570736575, high_key ^ 0x646f72616e646f6d ^ 0xee,
              low_key ^ 0x6c7967656e657261, high_key ^ 0x7465646279746573};
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) state.take(wire::load<std::uint64_t>(bytes.subspan(at)));
  std::uint64_t last = static_cast<std::uint64_t>(bytes.size()) << 56U;
  for (unsigned shift = 0; at < bytes.size(); ++at, shift += 8)
    last |= std::to_integer<std::uint64_t>(bytes[at]) << shift;
  state.take(last);
  state.c ^= 0xee;
  const std::uint64_t low = state.finish();
  state.b ^= 0xdd;
  return {low, state.finish()};
}

}  // namespace towpath::net
