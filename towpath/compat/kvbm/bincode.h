// Bincode: the bytes that Rust's bincode 2 writes with its standard settings, as far as KVBM's
// packed metadata needs them. A stream without names, lengths of records or a version: who reads
// must know what was written.
//
//   a number    0 to 250: one byte; else 251, 252, 253, 254 and 2, 4, 8, 16 bytes, little-endian,
//               of which the shortest that holds it
//   an enum     the variant's place as a number, then what the variant holds
//   an option   0, or 1 and the value
//   text, bytes, a list: the count as a number, then the elements
//
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::kvbm {

/// A number of 128 bits.
struct WideNumber {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const WideNumber&, const WideNumber&) = default;
};

/// Takes values off the beginning. Each failure names the value and where it stands. Bytes are
/// borrowed from the input. Errors of all: corrupt (cut off; a number longer than it need be; text
/// that is no UTF-8), out_of_range (over a bound).
class BincodeReader {
 public:
  explicit BincodeReader(ConstByteSpan bytes) noexcept : rest_(bytes), size_(bytes.size()) {}

  Result<std::uint64_t> number(std::string_view name, std::uint64_t max = UINT64_MAX);
  Result<WideNumber> wide(std::string_view name);
  Result<std::optional<std::uint64_t>> optional_number(std::string_view name);
  Result<std::string> text(std::string_view name, std::uint64_t max_bytes);
  Result<ConstByteSpan> bytes(std::string_view name, std::uint64_t max_bytes);

  /// One of an enum's `count` first variants.
  template <typename Enum>
  Result<Enum> variant(std::string_view name, std::uint64_t count) {
    TOWPATH_TRY(const std::uint64_t place, number(name, count - 1));
    return static_cast<Enum>(place);
  }

  std::size_t left() const noexcept { return rest_.size(); }

 private:
  Status refuse(Code code, std::string_view name, std::string_view why) const;
  Result<ConstByteSpan> take(std::string_view name, std::uint64_t length);

  ConstByteSpan rest_;
  std::size_t size_;
};

class BincodeWriter {
 public:
  void number(std::uint64_t value);
  void wide(const WideNumber& value);
  void optional_number(std::optional<std::uint64_t> value);
  void text(std::string_view value) { bytes(as_bytes(value)); }
  void bytes(ConstByteSpan value);
  template <typename Enum>
  void variant(Enum value) {
    number(static_cast<std::uint64_t>(value));
  }

  Bytes finish() && { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

}  // namespace towpath::kvbm
