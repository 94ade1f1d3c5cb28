// Numbers of 16 bits, as NVSHMEM's half and bfloat16: each operation is done as a float, and
// rounded to the nearest, ties to even. A float has more than twice their digits, so that is the
// result of rounding once.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace towpath::openshmem {

/// IEEE 754's binary16.
struct HalfFormat {
  static float value(std::uint16_t bits) {
    const int exponent = bits >> 10 & 31, digits = bits & 1023;
    float size = std::ldexp(static_cast<float>(digits | 1024), exponent - 25);
    if (exponent == 0) size = std::ldexp(static_cast<float>(digits), -24);
    if (exponent == 31) size = digits != 0 ? NAN : INFINITY;
    return std::copysign(size, (bits & 0x8000) != 0 ? -1.0F : 1.0F);
  }
  static std::uint16_t bits(float value) {
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const float size = std::fabs(value);
    if (std::isnan(value)) return sign | 0x7e00;
    if (size >= 65520.0F) return sign | 0x7c00;  // rounds above the largest
    // In units of the last digit: what is 1024 or more of them carries into the exponent.
    const int exponent = size < 0x1p-14F ? -14 : std::ilogb(size);
    const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
    return static_cast<std::uint16_t>(sign | ((exponent + 14) * 1024 + units));
  }
};

/// The upper half of a float.
struct BFloat16Format {
  static float value(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
  static std::uint16_t bits(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return static_cast<std::uint16_t>(all >> 16U | 0x40);
    return static_cast<std::uint16_t>((all + 0x7fff + (all >> 16U & 1)) >> 16U);
  }
};

template <typename Format>
struct ShortFloat {
  std::uint16_t bits;

  float value() const { return Format::value(bits); }

  friend ShortFloat operator+(ShortFloat a, ShortFloat b) {
    return {Format::bits(a.value() + b.value())};
  }
  friend ShortFloat operator*(ShortFloat a, ShortFloat b) {
    return {Format::bits(a.value() * b.value())};
  }
  friend bool operator<(ShortFloat a, ShortFloat b) { return a.value() < b.value(); }
};

using Half = ShortFloat<HalfFormat>;
using BFloat16 = ShortFloat<BFloat16Format>;

}  // namespace towpath::openshmem
