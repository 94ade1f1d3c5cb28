// Arithmetic that says when it would wrap. All sizes, offsets and counts that come from outside go
// through here.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>

namespace towpath {

constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

constexpr std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

constexpr bool is_power_of_two(std::uint64_t value) noexcept {
  return value != 0 && (value & (value - 1)) == 0;
}

/// `value` rounded up to a multiple of `alignment` (a power of two); nothing when that would wrap.
constexpr std::optional<std::uint64_t> align_up(std::uint64_t value,
                                                std::uint64_t alignment) noexcept {
  auto sum = checked_add(value, alignment - 1);
  if (!sum) return std::nullopt;
  return *sum & ~(alignment - 1);
}

/// Whether [offset, offset + length) lies within [0, size).
constexpr bool range_fits(std::uint64_t offset, std::uint64_t length, std::uint64_t size) noexcept {
  return offset <= size && length <= size - offset;
}

}  // namespace towpath
