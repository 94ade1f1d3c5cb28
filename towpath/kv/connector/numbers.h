// Lists of 64-bit numbers as a field's bytes: 8 each, little-endian. Thread: any.
#pragma once

#include <vector>

#include <towpath/wire/decoder.h>
#include <towpath/wire/little_endian.h>

namespace towpath::kv {

inline Bytes pack_numbers(const std::vector<std::uint64_t>& numbers) {
  Bytes packed;
  packed.reserve(numbers.size() * 8);
  for (const std::uint64_t number : numbers) wire::append(packed, number);
  return packed;
}

/// The field's rule bounds how many there are.
inline Result<std::vector<std::uint64_t>> unpack_numbers(const wire::Field& field) {
  const ConstByteSpan packed = field.bytes();
  if (packed.size() % 8 != 0) return field.refuse("not whole numbers");
  std::vector<std::uint64_t> numbers(packed.size() / 8);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = wire::load<std::uint64_t>(packed.subspan(8 * i));
  return numbers;
}

}  // namespace towpath::kv
