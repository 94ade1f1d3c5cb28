// Fixed fields: a small message whose fields are known when it is compiled, such as the key of a
// region, of which a pool has thousands.
//
//   using Length = NumberField<kLength>;
//   std::array<std::byte, kMostBytes<Length>> room;
//   const std::byte* end = put_fields<kKeySchema>(room.data(), Length{length});
//
// The bytes are those of an Encoder (encoder.h), in a quarter of its instructions: what that one
// finds out, the compiler does here, and nothing can fail. Thread: any.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <towpath/core/bytes.h>
#include <towpath/wire/little_endian.h>
#include <towpath/wire/schema.h>

namespace towpath::wire {

/// Its type says how large it can be, which its rule must allow.
template <Tag Its, std::unsigned_integral Number = std::uint64_t>
struct NumberField {
  static constexpr Tag kItsTag = Its;
  static constexpr Kind kKind = Kind::number;
  static constexpr std::uint64_t kMost = std::numeric_limits<Number>::max();
  static constexpr std::size_t kValueBytes = (std::numeric_limits<Number>::digits + 6) / 7;

  Number value = 0;

  std::byte* put(std::byte* out) const noexcept {
    std::uint64_t rest = value;
    for (; rest >= 0x80; rest >>= 7U) *out++ = static_cast<std::byte>(rest | 0x80);
    *out++ = static_cast<std::byte>(rest);
    return out;
  }
};

template <Tag Its, std::size_t Size>
struct BytesField {
  static constexpr Tag kItsTag = Its;
  static constexpr Kind kKind = Kind::bytes;
  static constexpr std::uint64_t kMost = Size;
  static constexpr std::size_t kValueBytes = sizeof(std::uint32_t) + Size;

  std::array<std::byte, Size> value{};

  std::byte* put(std::byte* out) const noexcept {
    store(ByteSpan(out, sizeof(std::uint32_t)), static_cast<std::uint32_t>(Size));
    return copy_bytes(value, out + sizeof(std::uint32_t));
  }
};

namespace internal {

inline constexpr std::size_t kHeadBytes = sizeof(std::uint16_t) + sizeof(std::uint8_t);

template <typename Field>
constexpr const FieldRule* rule_of(const Schema& schema) {
  const auto rule = std::ranges::find(schema.rules, Field::kItsTag, &FieldRule::tag);
  const bool allows = rule != schema.rules.end() && rule->kind == Field::kKind &&
                      Field::kMost <= rule->max && rule->count.min <= 1;
  return allows ? &*rule : nullptr;
}

/// Each may stand there, once, and none is missing.
template <typename... Fields>
constexpr bool are_whole(const Schema& schema) {
  const std::array<const FieldRule*, sizeof...(Fields)> rules{rule_of<Fields>(schema)...};
  std::size_t wanted = 0;
  for (const FieldRule* const rule : rules) {
    if (rule == nullptr || std::ranges::count(rules, rule) > 1) return false;
    wanted += rule->count.min;
  }
  return wanted == schema.wanted;
}

template <typename Field>
std::byte* put_field(std::byte* out, const Field& field) noexcept {
  store(ByteSpan(out, sizeof(std::uint16_t)), static_cast<std::uint16_t>(Field::kItsTag));
  out[sizeof(std::uint16_t)] = static_cast<std::byte>(Field::kKind);
  return field.put(out + kHeadBytes);
}

}  // namespace internal

/// No message of these fields is longer.
template <typename... Fields>
inline constexpr std::size_t kMostBytes = ((internal::kHeadBytes + Fields::kValueBytes) + ... + 0);

/// Writes them to where there is room for kMostBytes of them; returned is the end.
template <const Schema& Shape, typename... Fields>
std::byte* put_fields(std::byte* out, const Fields&... fields) noexcept {
  static_assert(internal::are_whole<Fields...>(Shape), "not a message of this schema");
  ((out = internal::put_field(out, fields)), ...);
  return out;
}

}  // namespace towpath::wire
