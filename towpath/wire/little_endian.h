// Numbers as little-endian bytes, on any machine. Nothing here checks a length: the caller has.
// Thread: immutable.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <towpath/core/bytes.h>

namespace towpath::wire {

/// Where the machine's own order is that of the bytes, and nothing is constant: one move.
constexpr bool is_plain_move() noexcept {
  return std::endian::native == std::endian::little && !std::is_constant_evaluated();
}

/// The first sizeof(T) bytes of `bytes`, which must hold as many.
template <std::unsigned_integral T>
constexpr T load(ConstByteSpan bytes) noexcept {
  T value = 0;
  if (is_plain_move()) {
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(bytes[i]) << (8 * i)));
  return value;
}

/// Overwrites the first sizeof(T) bytes of `bytes`, which must hold as many.
template <std::unsigned_integral T>
constexpr void store(ByteSpan bytes, T value) noexcept {
  if (is_plain_move()) {
    std::memcpy(bytes.data(), &value, sizeof value);
    return;
  }
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
}

/// Adds sizeof(T) bytes to the end.
template <std::unsigned_integral T>
void append(Bytes& bytes, T value) {
  std::array<std::byte, sizeof(T)> raw{};
  store(ByteSpan(raw), value);
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

}  // namespace towpath::wire
