#include <towpath/backends/messages/inbound_frames.h>

namespace towpath::backends::messages {

// ---- InboundWrite

void InboundWrite::begin(const Frame& its_frame, const Target& target,
                         std::function<bool()> may_land) {
  frame = its_frame;
  target_ = &target;
  may_land_ = std::move(may_land);
  refusals_.clear();
  ReceiveSink::begin(FramePieceIterator(frame), frame.payload_bytes, target.guard());
}

PieceVerdict InboundWrite::verdict(const FramePieceIterator& at) const {
  // What was refused once stays so: one piece has one verdict.
  if (!refusals_.empty() && refusals_.back().piece == at.index())
    return {.verdict = refusals_.back().code};
  return target_->judge(frame.piece(at.index()), sys::GuardedCopy::Direction::into_memory);
}

void InboundWrite::refuse(const FramePieceIterator& at, Code why) {
  if (refusals_.empty() || refusals_.back().piece != at.index())
    refusals_.push_back({at.index(), why});
}

// ---- InboundData

void InboundData::begin(const Frame& its_frame, const Exchange* exchange,
                        std::function<bool()> is_wanted, sys::GuardedCopy& guard) {
  frame = its_frame;
  is_wanted_ = std::move(is_wanted);
  const bool lands = exchange != nullptr && exchange->operation != nullptr;
  window_ = lands ? exchange->operation->window() : nullptr;
  is_refused_ = false;
  trailer_ = {};
  if (!lands) return ReceiveSink::begin(RequestPieceIterator(), 0, guard);
  ReceiveSink::begin(RequestPieceIterator(exchange->begin, exchange->bytes, &frame),
                     frame.payload_bytes, guard,
                     frame.has_trailer() ? ByteSpan(trailer_) : ByteSpan());
}

// ---- InboundText

void InboundText::begin(const Frame& its_frame, std::uint64_t its_from) {
  frame = its_frame;
  from = its_from;
  text.assign(frame.payload_bytes, std::byte{0});
  filled_ = 0;
}

std::size_t InboundText::room(std::span<ByteSpan> into) {
  if (filled_ == text.size()) return 0;
  into.front() = ByteSpan(text).subspan(filled_);
  return 1;
}

}  // namespace towpath::backends::messages
