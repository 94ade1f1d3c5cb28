// Pages of Identify for tests, filled in where the specification says. For tests only.
#pragma once

#include <cstdint>
#include <string_view>

#include <towpath/backends/nvme/nvme_command.h>

namespace towpath::backends::nvme::testing {

class Page {
 public:
  Page& put(std::size_t place, std::uint64_t value, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      bytes_.at(place + i) = static_cast<std::byte>(value >> (8 * i));
    return *this;
  }
  Page& text(std::size_t place, std::string_view value, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      bytes_.at(place + i) = static_cast<std::byte>(i < value.size() ? value[i] : ' ');
    return *this;
  }
  const Bytes& bytes() const noexcept { return bytes_; }

 private:
  Bytes bytes_ = Bytes(kIdentifyBytes);
};

inline Page controller_page(std::uint8_t mdts) {
  return Page()
      .text(4, "S-1", 20)
      .text(24, "A drive", 40)
      .text(64, "1.0", 8)
      .put(77, mdts, 1)
      .put(520, 1U << 2U, 2)
      .put(525, 1, 1);
}

/// `format` is the one in use, of `format + 1` in the list.
inline Page namespace_page(std::uint64_t blocks, unsigned block_shift, unsigned format = 0) {
  return Page()
      .put(0, blocks, 8)
      .put(25, format, 1)
      .put(26, (format & 0xFU) | (format >> 4U) << 5U, 1)
      .put(128 + 4 * format + 2, block_shift, 1);
}

}  // namespace towpath::backends::nvme::testing
