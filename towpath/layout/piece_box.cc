#include <algorithm>
#include <climits>

#include <towpath/layout/piece_box.h>

namespace towpath::layout {

PieceBox::Dimension PieceBox::take_longest() noexcept {
  if (rank_ == 0) return {};
  std::size_t longest = 0;
  for (std::size_t i = 1; i < rank_; ++i)
    if (dimensions_[i].extent > dimensions_[longest].extent) longest = i;
  const Dimension taken = dimensions_[longest];
  erase(longest);
  return taken;
}

std::uint64_t PieceBox::count() const noexcept {
  std::uint64_t product = 1;
  for (const Dimension& dimension : dimensions()) product *= dimension.extent;
  return product;
}

bool PieceBox::to_bytes(unsigned element_bits) noexcept {
  const std::uint64_t up = element_bits >= CHAR_BIT ? element_bits / CHAR_BIT : 1;
  const std::uint64_t down = element_bits >= CHAR_BIT ? 1 : CHAR_BIT / element_bits;
  bool is_whole = true;
  const auto convert = [&](std::uint64_t& elements) {
    is_whole = is_whole && elements % down == 0;
    elements = elements / down * up;
  };
  convert(length_);
  for (std::size_t i = 0; i < rank_; ++i) {
    convert(dimensions_[i].source_stride);
    convert(dimensions_[i].target_stride);
  }
  return is_whole;
}

bool operator==(const PieceBox& a, const PieceBox& b) noexcept {
  return a.length_ == b.length_ && std::ranges::equal(a.dimensions(), b.dimensions());
}

// Pieces that touch their next ones on both sides become longer pieces.
bool PieceBox::lengthen() noexcept {
  for (std::size_t i = 0; i < rank_; ++i) {
    const Dimension& d = dimensions_[i];
    if (d.source_stride != length_ || d.target_stride != length_) continue;
    length_ *= d.extent;
    erase(i);
    return true;
  }
  return false;
}

// A dimension that goes on where another one ends, at its strides, is more of it.
bool PieceBox::chain() noexcept {
  for (std::size_t inner = 0; inner < rank_; ++inner) {
    Dimension& d = dimensions_[inner];
    for (std::size_t outer = 0; outer < rank_; ++outer) {
      const Dimension& next = dimensions_[outer];
      if (inner == outer || next.source_stride != d.source_stride * d.extent ||
          next.target_stride != d.target_stride * d.extent)
        continue;
      d.extent *= next.extent;
      erase(outer);
      return true;
    }
  }
  return false;
}

void PieceBox::erase(std::size_t index) noexcept {
  std::copy(dimensions_.begin() + index + 1, dimensions_.begin() + rank_,
            dimensions_.begin() + index);
  --rank_;
}

}  // namespace towpath::layout
