#include <utility>

#include <towpath/compat/kvbm/bincode.h>
#include <towpath/core/format.h>
#include <towpath/core/utf8.h>
#include <towpath/wire/little_endian.h>

namespace towpath::kvbm {
namespace {

constexpr std::uint8_t kLargestByte = 250, kTwo = 251, kFour = 252, kEight = 253, kSixteen = 254;

struct Width {
  std::size_t bytes;
  std::uint64_t least;  // a smaller number has a shorter form
};

/// Of numbers up to 64 bits; 0 bytes: no such marker.
constexpr Width width_of(std::uint8_t marker) noexcept {
  switch (marker) {
    case kTwo: return {2, kLargestByte + 1};
    case kFour: return {4, UINT16_MAX + std::uint64_t{1}};
    case kEight: return {8, UINT32_MAX + std::uint64_t{1}};
    default: return {0, 0};
  }
}

std::uint64_t load(ConstByteSpan bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i)
    value = value << 8U | std::to_integer<std::uint64_t>(bytes[i - 1]);
  return value;
}

}  // namespace

Status BincodeReader::refuse(Code code, std::string_view name, std::string_view why) const {
  return error(code, cat(name, " before byte ", size_ - rest_.size(), " ", why),
               "see that the bytes are whole, as their writer made them");
}

Result<ConstByteSpan> BincodeReader::take(std::string_view name, std::uint64_t length) {
  if (length > rest_.size())
    return refuse(Code::corrupt, name,
                  cat("is cut off: ", length, " bytes should follow, ", rest_.size(), " do"));
  const ConstByteSpan taken = rest_.first(static_cast<std::size_t>(length));
  rest_ = rest_.subspan(taken.size());
  return taken;
}

Result<std::uint64_t> BincodeReader::number(std::string_view name, std::uint64_t max) {
  TOWPATH_TRY(const ConstByteSpan first, take(name, 1));
  auto value = std::to_integer<std::uint64_t>(first[0]);
  if (value > kLargestByte) {
    const Width width = width_of(std::to_integer<std::uint8_t>(first[0]));
    if (width.bytes == 0)
      return refuse(Code::corrupt, name, cat("is no number of 64 bits: it begins with ", value));
    TOWPATH_TRY(const ConstByteSpan more, take(name, width.bytes));
    value = load(more);
    if (value < width.least)
      return refuse(Code::corrupt, name, cat("is ", value, " in ", width.bytes, " bytes"));
  }
  if (value <= max) return value;
  return refuse(Code::out_of_range, name, cat("is ", value, ", over its bound ", max));
}

Result<WideNumber> BincodeReader::wide(std::string_view name) {
  if (rest_.empty() || std::to_integer<std::uint8_t>(rest_[0]) != kSixteen) {
    TOWPATH_TRY(const std::uint64_t low, number(name));
    return WideNumber{low, 0};
  }
  TOWPATH_TRY(const ConstByteSpan raw, take(name, 1 + 2 * sizeof(std::uint64_t)));
  const WideNumber value{load(raw.subspan(1, 8)), load(raw.subspan(9))};
  if (value.high == 0) return refuse(Code::corrupt, name, cat("is ", value.low, " in 16 bytes"));
  return value;
}

Result<std::optional<std::uint64_t>> BincodeReader::optional_number(std::string_view name) {
  TOWPATH_TRY(const ConstByteSpan is_there, take(name, 1));
  if (is_there[0] == std::byte{0}) return std::optional<std::uint64_t>();
  if (is_there[0] != std::byte{1}) return refuse(Code::corrupt, name, "is neither there nor not");
  TOWPATH_TRY(const std::uint64_t value, number(name));
  return std::optional(value);
}

Result<ConstByteSpan> BincodeReader::bytes(std::string_view name, std::uint64_t max_bytes) {
  TOWPATH_TRY(const std::uint64_t length, number(cat("length of ", name), max_bytes));
  return take(name, length);
}

Result<std::string> BincodeReader::text(std::string_view name, std::uint64_t max_bytes) {
  TOWPATH_TRY(const ConstByteSpan raw, bytes(name, max_bytes));
  if (is_utf8(as_text(raw))) return std::string(as_text(raw));
  return refuse(Code::corrupt, name, cat("is no UTF-8: '", printable(as_text(raw)), "'"));
}

void BincodeWriter::number(std::uint64_t value) {
  const auto put = [&](std::uint8_t marker, auto number) {
    bytes_.push_back(std::byte{marker});
    wire::append(bytes_, number);
  };
  if (value <= kLargestByte) {
    bytes_.push_back(static_cast<std::byte>(value));
  } else if (value <= UINT16_MAX) {
    put(kTwo, static_cast<std::uint16_t>(value));
  } else if (value <= UINT32_MAX) {
    put(kFour, static_cast<std::uint32_t>(value));
  } else {
    put(kEight, value);
  }
}

void BincodeWriter::wide(const WideNumber& value) {
  if (value.high == 0) return number(value.low);
  bytes_.push_back(std::byte{kSixteen});
  wire::append(bytes_, value.low);
  wire::append(bytes_, value.high);
}

void BincodeWriter::optional_number(std::optional<std::uint64_t> value) {
  bytes_.push_back(static_cast<std::byte>(value ? 1 : 0));
  if (value) number(*value);
}

void BincodeWriter::bytes(ConstByteSpan value) {
  number(value.size());
  bytes_.insert(bytes_.end(), value.begin(), value.end());
}

}  // namespace towpath::kvbm
