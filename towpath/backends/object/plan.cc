#include <algorithm>
#include <map>
#include <tuple>

#include <towpath/backends/object/plan.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {
namespace {

struct ByName {
  bool operator()(const ObjectName* a, const ObjectName* b) const { return *a < *b; }
};

/// The end of what is fetched together with the piece at `first`, and of the pieces in it.
struct Extent {
  std::size_t pieces = 0;
  std::uint64_t end = 0;
};
Extent extent_of(Pieces pieces, std::uint64_t gap_bytes) {
  Extent extent{1, pieces.front().end()};
  while (extent.pieces < pieces.size()) {
    const Piece& next = pieces[extent.pieces];
    if (next.place > extent.end && next.place - extent.end > gap_bytes) break;
    extent.end = std::max(extent.end, next.end());
    ++extent.pieces;
  }
  return extent;
}

}  // namespace

std::uint64_t Share::end() const noexcept {
  std::uint64_t end = 0;
  for (const Piece& piece : pieces) end = std::max(end, piece.end());
  return end;
}

Status Plan::start(Segments segments) {
  pieces_.clear();
  shares_.clear();
  if (segments.size() > UINT32_MAX)
    return error(Code::invalid_argument, cat(segments.size(), " segments in one request"));
  std::uint32_t object = 0;
  std::map<const ObjectName*, std::uint32_t, ByName> known;  // in shares_
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const backend::Segment& segment = segments[i];
    if (segment.length == 0 || segment.count == 0) continue;
    const auto& memory = static_cast<const ObjectMemory&>(*segment.remote);
    if (shares_.empty() || &shares_[object].object->record() != &memory.record()) {
      const auto next = static_cast<std::uint32_t>(shares_.size());
      const auto [found, is_new] = known.try_emplace(&memory.name(), next);
      object = found->second;
      if (is_new) shares_.push_back({.object = &memory});
    }
    for (std::uint64_t k = 0; k < segment.count; ++k)
      pieces_.push_back({.place = segment.remote_address + k * segment.remote_stride,
                         .length = segment.length,
                         .address = segment.local_address + k * segment.local_stride,
                         .extent = k,
                         .segment = static_cast<std::uint32_t>(i),
                         .object = object});
  }
  std::ranges::sort(pieces_, {}, [](const Piece& piece) {
    return std::tuple(piece.object, piece.place, piece.segment, piece.extent);
  });
  std::size_t at = 0;
  for (std::uint32_t share = 0; share < shares_.size(); ++share) {
    const std::size_t begin = at;
    while (at < pieces_.size() && pieces_[at].object == share) ++at;
    shares_[share].pieces = Pieces(pieces_).subspan(begin, at - begin);
  }
  return {};
}

void Plan::fetches(const FetchLimits& limits, std::vector<Fetch>& into) const {
  into.clear();
  for (std::uint32_t share = 0; share < shares_.size(); ++share) {
    Pieces left = shares_[share].pieces;
    while (!left.empty()) {
      const Extent extent = extent_of(left, limits.gap_bytes);
      const bool is_whole = left.front().place == 0 && extent.end <= limits.whole_bytes &&
                            extent.end == shares_[share].object->record().region.length;
      const std::uint64_t part_bytes = is_whole ? extent.end : limits.part_bytes;
      Pieces in_part = left.first(extent.pieces);
      for (std::uint64_t begin = left.front().place; begin < extent.end;) {
        const std::uint64_t end = begin + std::min(part_bytes, extent.end - begin);
        while (!in_part.empty() && in_part.front().end() <= begin) in_part = in_part.subspan(1);
        const auto behind = std::ranges::lower_bound(in_part, end, {}, &Piece::place);
        const auto count = static_cast<std::size_t>(behind - in_part.begin());
        if (count > 0)  // else there is nothing but a gap
          into.push_back({share, begin, end, in_part.first(count)});
        begin = end;
      }
      left = left.subspan(extent.pieces);
    }
  }
}

Status check_whole(const Share& share) {
  std::uint64_t end = 0;
  for (const Piece& piece : share.pieces) {
    if (piece.place != end)
      return error(
          Code::unsupported,
          cat("a write to ", to_string(share.object->name()), " has bytes at ", piece.place,
              " where ", end, " comes next: an object can only be put whole"),
          "write it from offset 0 without gaps in one transfer, or use one object for each "
          "piece that is written by itself");
    end = piece.end();
  }
  return {};
}

}  // namespace towpath::backends::object
