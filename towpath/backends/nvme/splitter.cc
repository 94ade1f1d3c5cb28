#include <towpath/backends/nvme/splitter.h>

namespace towpath::backends::nvme {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
  return value + (unit - value % unit) % unit;
}

}  // namespace

void Splitter::start(Segments segments, bool write) noexcept {
  segments_ = segments;
  write_ = write;
  at_ = first_byte(segments_, {});
}

/// Whether a command can begin here and move at least a block.
bool Splitter::goes_straight(const Extent& extent) const noexcept {
  return extent.remote_address % block_ == 0 && extent.local_address % kAddressUnit == 0 &&
         extent.length >= block_;
}

void Splitter::take(Piece& piece, std::uint64_t bytes) noexcept {
  piece.length += bytes;
  at_ = advance(segments_, at_, bytes);
}

Piece Splitter::next() noexcept {
  Piece piece{.start = at_, .device = &device()};
  const NamespaceInfo& info = piece.device->info();
  block_ = info.block_bytes;
  window_ = std::max(block_, std::min(kWindowBytes, info.max_transfer_bytes));
  zone_ = info.zone_bytes;
  const Extent extent = extent_at(segments_, at_);
  if (goes_straight(extent)) {
    take(piece, std::min({extent.length - extent.length % block_, info.max_transfer_bytes,
                          zone_end(extent.remote_address) - extent.remote_address}));
    return piece;
  }
  if (!write_) {
    piece.path = Path::bounce;
    take_window(piece);
  } else if (const std::uint64_t blocks = whole_blocks(); blocks != 0) {
    piece.path = Path::bounce;
    take(piece, blocks);
  } else {
    piece.path = Path::modify;
    take_block(piece);
  }
  return piece;
}

/// Of the zone that this byte lies in.
std::uint64_t Splitter::zone_end(std::uint64_t address) const noexcept {
  return zone_ == 0 ? UINT64_MAX : address - address % zone_ + zone_;
}

// Of a read: all that follows as long as it touches the blocks of the window, or the next one.
void Splitter::take_window(Piece& piece) noexcept {
  const std::uint64_t address = extent_at(segments_, at_).remote_address;
  const std::uint64_t begin = address - address % block_;
  const std::uint64_t most = std::min(begin + window_, zone_end(begin));
  std::uint64_t end = begin + block_;
  while (!done() && &device() == piece.device) {
    const Extent extent = extent_at(segments_, at_);
    const bool touches = extent.remote_address >= begin && extent.remote_address < end + block_ &&
                         extent.remote_address < most;
    if (!touches || (piece.length != 0 && goes_straight(extent))) return;
    std::uint64_t bytes = std::min(extent.length, most - extent.remote_address);
    // At the next border of a block the way may be straight.
    const std::uint64_t head = round_up(extent.remote_address, block_) - extent.remote_address;
    const bool straight_behind =
        head != 0 && head < extent.length &&
        goes_straight(
            {extent.local_address + head, extent.remote_address + head, extent.length - head});
    if (straight_behind) bytes = head;
    take(piece, bytes);
    if (bytes < extent.length) return;
    end = std::max(end, round_up(extent.remote_address + bytes, block_));
  }
}

// Of a write: how much from here on is without a gap on the device, in whole blocks of the window.
std::uint64_t Splitter::whole_blocks() const noexcept {
  const std::uint64_t begin = extent_at(segments_, at_).remote_address;
  if (begin % block_ != 0) return 0;
  std::uint64_t bytes = 0;
  for (Position at = at_; at.segment < segments_.size() && bytes < window_;) {
    const Extent extent = extent_at(segments_, at);
    const bool follows =
        extent.remote_address == begin + bytes && segments_[at.segment].remote == &device();
    if (!follows || (bytes != 0 && goes_straight(extent))) break;
    bytes += extent.length;
    at = advance(segments_, at, extent.length);
  }
  bytes = std::min(bytes, window_);
  return bytes - bytes % block_;
}

// Of a write: all that follows as long as it lies in this block.
void Splitter::take_block(Piece& piece) noexcept {
  const std::uint64_t address = extent_at(segments_, at_).remote_address;
  const std::uint64_t begin = address - address % block_;
  while (!done() && &device() == piece.device) {
    const Extent extent = extent_at(segments_, at_);
    if (extent.remote_address < begin || extent.remote_address >= begin + block_) return;
    const std::uint64_t bytes = std::min(extent.length, begin + block_ - extent.remote_address);
    take(piece, bytes);
    if (bytes < extent.length) return;
  }
}

}  // namespace towpath::backends::nvme
