// Splitter: cuts a request into pieces, one at a time, in its order. Pure: it decides and touches
// nothing; the same request and namespace give the same pieces.
//
// A drive moves whole blocks to and from addresses that are multiples of 4. What fits that goes
// straight; the rest takes a detour over a window of whole blocks in memory of ours:
//
//   direct   blocks <-> the user's memory            one command, up to the largest transfer
//   bounce   blocks <-> a window, copied by us       parts of blocks read; memory at odd addresses
//   modify   one block read, changed, written back   writes of a part of a block
//
// Where a namespace has zones no piece crosses the end of one. A window takes several extents
// where they lie in it. A piece of `modify` is one block, so that a power failure leaves it old or
// new: drives write single blocks whole (AWUPF). Thread: loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <towpath/backend/position.h>
#include <towpath/backends/nvme/memories.h>

namespace towpath::backends::nvme {

using backend::Extent;
using backend::Position;
using backend::Segments;

enum class Path : std::uint8_t { direct, bounce, modify };
inline constexpr std::size_t kPaths = 3;

constexpr std::string_view name_of(Path path) noexcept {
  switch (path) {
    case Path::direct: return "direct";
    case Path::bounce: return "bounce";
    case Path::modify: return "modify";
  }
  return "unknown";
}

/// What the kernel wants of an address; it would copy to and from others silently.
inline constexpr std::uint64_t kAddressUnit = 4;
/// Bytes of the window of one bounce; one block where blocks are longer.
inline constexpr std::uint64_t kWindowBytes = 64U << 10U;

/// Consecutive bytes of a request that go together. `length` counts them, not the blocks.
struct Piece {
  Position start;
  BlockMemory* device = nullptr;
  std::uint64_t length = 0;
  Path path = Path::direct;
};

class Splitter {
 public:
  /// `segments` must stay as they are until done().
  void start(Segments segments, bool write) noexcept;
  bool done() const noexcept { return at_.segment >= segments_.size(); }

  /// The next piece; not done().
  Piece next() noexcept;
  /// Gives the newest piece back.
  void rewind(const Piece& piece) noexcept { at_ = piece.start; }

 private:
  bool goes_straight(const Extent& extent) const noexcept;
  void take_window(Piece& piece) noexcept;
  std::uint64_t zone_end(std::uint64_t address) const noexcept;
  std::uint64_t whole_blocks() const noexcept;
  void take_block(Piece& piece) noexcept;
  void take(Piece& piece, std::uint64_t bytes) noexcept;
  BlockMemory& device() const noexcept {
    return *static_cast<BlockMemory*>(segments_[at_.segment].remote);
  }

  Segments segments_;
  Position at_;
  std::uint64_t block_ = 0;   // bytes of one, of the device of the piece that is made
  std::uint64_t window_ = 0;  // likewise
  std::uint64_t zone_ = 0;    // likewise; 0: it has none
  bool write_ = false;
};

/// Calls `visit(extent)` for each extent of `bytes` bytes from `at` on, none longer than that.
template <typename Visit>
void for_extents(Segments segments, Position at, std::uint64_t bytes, const Visit& visit) {
  while (bytes != 0 && at.segment < segments.size()) {
    Extent extent = extent_at(segments, at);
    extent.length = std::min(extent.length, bytes);
    visit(extent);
    bytes -= extent.length;
    at = advance(segments, at, extent.length);
  }
}

}  // namespace towpath::backends::nvme
