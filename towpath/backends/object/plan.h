// What a request comes to, before anything is asked of a store: which bytes of which object belong
// where, which ranges to fetch, and whether a write puts each object whole. Pure.
//
//   extents of one object   [a..)   [b....)            [c)
//   fetches                   [..................)       [.)     b is near a: read together
//   an extent that is longer than a part is fetched in parts
//
// Thread: loop. Cost: one sort of the extents and one of the objects' names; the memory of the
// extents is kept for the next request.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <towpath/backend/position.h>
#include <towpath/backends/object/memories.h>

namespace towpath::backends::object {

using backend::Segments;

/// An extent: bytes [place, end()) of an object, and where they lie in memory.
struct Piece {
  std::uint64_t place = 0;
  std::uint64_t length = 0;
  std::uint64_t address = 0;
  std::uint64_t extent = 0;
  std::uint32_t segment = 0;
  std::uint32_t object = 0;  ///< index in Plan::objects()

  std::uint64_t end() const noexcept { return place + length; }
};
using Pieces = std::span<const Piece>;

struct Share {
  const ObjectMemory* object = nullptr;
  Pieces pieces;  ///< in order of their place

  /// Behind the last byte of all of them.
  std::uint64_t end() const noexcept;
};

/// Bytes [begin, end) of an object, to be read in one go, and the pieces that have some of them.
struct Fetch {
  std::uint32_t share = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Pieces pieces;
};

class Plan {
 public:
  /// Takes the request's extents in; empty ones are left out. Errors: invalid_argument (too many
  /// segments).
  Status start(Segments segments);
  /// Each object once, in the order in which the request names them first.
  std::span<const Share> shares() const noexcept { return shares_; }

  struct FetchLimits {
    std::uint64_t part_bytes = 8ULL << 20U;
    std::uint64_t gap_bytes = 0;
    /// What is all of its region, and no longer, is one fetch: its checksum can be compared then.
    std::uint64_t whole_bytes = 0;
  };
  /// In order of share and place.
  void fetches(const FetchLimits& limits, std::vector<Fetch>& into) const;

 private:
  std::vector<Piece> pieces_;
  std::vector<Share> shares_;
};

/// Whether the pieces put all of an object: from its first byte on, without a gap, no byte twice.
/// Errors: unsupported, with what to do instead.
Status check_whole(const Share& share);

}  // namespace towpath::backends::object
