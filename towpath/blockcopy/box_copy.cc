#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <towpath/blockcopy/box_copy.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>

namespace towpath::blockcopy {
namespace {

using layout::CopyBox;
using layout::PieceBox;
using Dimension = PieceBox::Dimension;
using Dimensions = std::span<const Dimension>;

/// Where a piece is read and written.
struct At {
  const std::byte* source;
  std::byte* target;

  At stepped(const Dimension& by, std::uint64_t times) const {
    return {source + by.source_stride * times, target + by.target_stride * times};
  }
};

std::optional<std::uint64_t> reach_of(const PieceBox& pieces, std::uint64_t Dimension::*stride) {
  std::optional<std::uint64_t> reach = pieces.length();
  for (const Dimension& dimension : pieces.dimensions()) {
    const auto steps = checked_multiply(dimension.extent - 1, dimension.*stride);
    reach = reach && steps ? checked_add(*reach, *steps) : std::nullopt;
  }
  return reach;
}

struct Start {
  std::string_view side;
  std::uint64_t region, offset;
};

Result<std::byte*> find(std::span<const ByteSpan> regions, const Start& start,
                        std::optional<std::uint64_t> reach) {
  if (start.region < regions.size() && reach &&
      range_fits(start.offset, *reach, regions[start.region].size()))
    return regions[start.region].data() + start.offset;
  return error(
      Code::out_of_range,
      cat("a box of the plan reaches ", reach ? cat(*reach) : "2^64 and more", " bytes from ",
          start.side, " region ", start.region, " +", start.offset, ", which is not there"),
      "copy a plan with the regions that it was made for");
}

Result<At> start_of(const CopyBox& box, const CopyRegions& regions) {
  TOWPATH_TRY(std::byte* const source,
              find(regions.source, {"source", box.source_region, box.source_offset},
                   reach_of(box.pieces, &Dimension::source_stride)));
  TOWPATH_TRY(std::byte* const target,
              find(regions.target, {"target", box.target_region, box.target_offset},
                   reach_of(box.pieces, &Dimension::target_stride)));
  return At{source, target};
}

/// Both of a plane's dimensions, `fast` being the one along which the target lies closest.
struct Plane {
  Dimension fast, slow;
  std::uint64_t length;
};

// kTile pieces of 16 bytes in each direction touch as many lines of a first-level cache as it has
// ways to spare.
constexpr std::uint64_t kTile = 16;
constexpr std::uint64_t kSmallPiece = 64;

template <std::size_t Length>
void copy_rows(const Plane& plane, At at, std::uint64_t slow, std::uint64_t fast) {
  for (std::uint64_t s = 0; s < slow; ++s, at = at.stepped(plane.slow, 1)) {
    At piece = at;
    for (std::uint64_t f = 0; f < fast; ++f, piece = piece.stepped(plane.fast, 1)) {
      if constexpr (Length == 0)
        std::memcpy(piece.target, piece.source, plane.length);
      else
        std::memcpy(piece.target, piece.source, Length);
    }
  }
}

template <std::size_t Length>
void copy_plane(const Plane& plane, At at) {
  if constexpr (Length == 0 || Length > kSmallPiece)
    return copy_rows<Length>(plane, at, plane.slow.extent, plane.fast.extent);
  for (std::uint64_t s = 0; s < plane.slow.extent; s += kTile)
    for (std::uint64_t f = 0; f < plane.fast.extent; f += kTile)
      copy_rows<Length>(plane, at.stepped(plane.slow, s).stepped(plane.fast, f),
                        std::min(kTile, plane.slow.extent - s),
                        std::min(kTile, plane.fast.extent - f));
}

using PlaneCopy = void (*)(const Plane&, At);

PlaneCopy copy_of_length(std::uint64_t length) {
  switch (length) {
    case 1: return copy_plane<1>;
    case 2: return copy_plane<2>;
    case 4: return copy_plane<4>;
    case 8: return copy_plane<8>;
    case 16: return copy_plane<16>;
    case 32: return copy_plane<32>;
    case 64: return copy_plane<64>;
    case 128: return copy_plane<128>;
    case 256: return copy_plane<256>;
    case 512: return copy_plane<512>;
    default: return copy_plane<0>;
  }
}

/// Dimensions that are still to be placed in loops.
class Unplaced {
 public:
  explicit Unplaced(Dimensions dimensions) : count_(dimensions.size()) {
    std::ranges::copy(dimensions, left_.begin());
  }
  std::size_t size() const { return count_; }

  /// That of the shortest stride; one of extent 1 if there is none.
  Dimension take_least(std::uint64_t Dimension::*stride) {
    if (count_ == 0) return {};
    std::size_t least = 0;
    for (std::size_t i = 1; i < count_; ++i)
      if (left_[i].*stride < left_[least].*stride) least = i;
    const Dimension taken = left_[least];
    left_[least] = left_[--count_];
    return taken;
  }

 private:
  std::array<Dimension, PieceBox::kMaxRank> left_;
  std::size_t count_;
};

void copy_around(Dimensions outer, const Plane& plane, At at, PlaneCopy copy) {
  if (outer.empty()) return copy(plane, at);
  const Dimension& outermost = outer.back();
  for (std::uint64_t i = 0; i < outermost.extent; ++i)
    copy_around(outer.first(outer.size() - 1), plane, at.stepped(outermost, i), copy);
}

/// The two dimensions that run closest, one in the target and one in the source, are the plane;
/// the others run around it, the widest in the target outermost.
void copy_box(const PieceBox& pieces, At at) {
  Unplaced left(pieces.dimensions());
  Plane plane{.fast = {}, .slow = {}, .length = pieces.length()};
  plane.fast = left.take_least(&Dimension::target_stride);
  plane.slow = left.take_least(&Dimension::source_stride);
  std::array<Dimension, PieceBox::kMaxRank> outer;
  const std::size_t count = left.size();
  for (std::size_t i = 0; i < count; ++i) outer[i] = left.take_least(&Dimension::target_stride);
  copy_around({outer.data(), count}, plane, at, copy_of_length(pieces.length()));
}

void copy_plainly(Dimensions dimensions, std::uint64_t length, At at) {
  if (dimensions.empty()) {
    std::memcpy(at.target, at.source, length);
    return;
  }
  for (std::uint64_t i = 0; i < dimensions.back().extent; ++i)
    copy_plainly(dimensions.first(dimensions.size() - 1), length, at.stepped(dimensions.back(), i));
}

}  // namespace

Status copy_boxes(const layout::BoxPlan& plan, const CopyRegions& regions) {
  for (const CopyBox& box : plan.boxes()) {
    TOWPATH_TRY(const At at, start_of(box, regions));
    copy_box(box.pieces, at);
  }
  return {};
}

Status copy_boxes_plainly(const layout::BoxPlan& plan, const CopyRegions& regions) {
  for (const CopyBox& box : plan.boxes()) {
    TOWPATH_TRY(const At at, start_of(box, regions));
    copy_plainly(box.pieces.dimensions(), box.pieces.length(), at);
  }
  return {};
}

}  // namespace towpath::blockcopy
