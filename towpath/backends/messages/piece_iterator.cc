#include <algorithm>

#include <towpath/backends/messages/memory.h>
#include <towpath/backends/messages/piece_iterator.h>

namespace towpath::backends::messages {

using namespace backend;

// ---- FramePieceIterator

void FramePieceIterator::settle() noexcept {
  while (!done() && without_ != nullptr && without_->test(index_)) ++index_;
  place_ = {};
  if (!done()) piece_ = frame_->piece(index_);
}

void FramePieceIterator::advance(std::uint64_t bytes) noexcept {
  while (bytes > 0) {
    const std::uint64_t step = std::min(bytes, place_.left(piece_));
    bytes -= step;
    if (!place_.advance(piece_, step)) continue;
    ++index_;
    settle();
  }
}

// ---- RequestPieceIterator

LocalPiece take_piece(SegmentCursor& at, std::uint64_t room) {
  const Segment& segment = at.segment();
  const auto& remote = static_cast<const MessageMemory&>(*segment.remote);
  LocalPiece taken{.piece = {.token = remote.token, .address = at.remote_address()},
                   .local = segment.local,
                   .local_address = at.local_address(),
                   .local_stride = segment.local_stride,
                   .segment = at.index(),
                   .extent = at.extent(),
                   .offset = at.offset(),
                   .is_device = remote.region.kind == MemoryKind::device};
  const std::uint64_t length = std::min(at.left(), room);
  taken.piece.length = static_cast<std::uint32_t>(length);
  const bool whole = length == segment.length;
  if (!whole) {
    at.advance(length);
    return taken;
  }
  const std::uint64_t count = std::min(segment.count - at.extent(), room / length);
  taken.piece.count = static_cast<std::uint32_t>(count);
  if (count > 1) taken.piece.stride = segment.remote_stride;
  for (std::uint64_t i = 0; i < count; ++i) at.advance(length);
  return taken;
}

void RequestPieceIterator::settle() noexcept {
  for (is_over_ = false; left_ > 0; ++next_piece_) {
    const LocalPiece next = take_piece(at_, left_);
    left_ -= next.piece.bytes();
    const bool is_refused = answer_ != nullptr && next_refusal_ < answer_->header.count &&
                            answer_->refusal(next_refusal_).piece == next_piece_;
    if (is_refused) {
      ++next_refusal_;
      continue;
    }
    ++next_piece_;
    memory_ = next.local;
    here_ = {.address = next.local_address,
             .stride = next.local_stride,
             .length = next.piece.length,
             .count = next.piece.count};
    place_ = {};
    return;
  }
  is_over_ = true;
}

bool RequestPieceIterator::may_fault() const noexcept {
  return static_cast<const MessageMemory&>(*memory_).region.may_fault;
}

void RequestPieceIterator::advance(std::uint64_t bytes) noexcept {
  while (bytes > 0) {
    const std::uint64_t step = std::min(bytes, place_.left(here_));
    bytes -= step;
    if (place_.advance(here_, step)) settle();
  }
}

}  // namespace towpath::backends::messages
