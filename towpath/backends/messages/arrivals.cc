#include <towpath/backends/messages/arrivals.h>

namespace towpath::backends::messages {

// ---- WriteArrival

void WriteArrival::begin(const Frame& its_frame, const Owner& owner,
                         std::function<bool()> may_land) {
  frame = its_frame;
  owner_ = &owner;
  may_land_ = std::move(may_land);
  refusals_.clear();
  Landing::begin(FrameWalk(frame));
}

Ground WriteArrival::ground(const FrameWalk& at) const {
  // What was refused once stays so: one piece has one verdict.
  if (!refusals_.empty() && refusals_.back().piece == at.index())
    return {.verdict = refusals_.back().code};
  return owner_->judge(frame.piece(at.index()));
}

void WriteArrival::refuse(const FrameWalk& at, Code why) {
  if (refusals_.empty() || refusals_.back().piece != at.index())
    refusals_.push_back({at.index(), why});
}

// ---- DataArrival

void DataArrival::begin(const Frame& its_frame, const Exchange* exchange,
                        std::function<bool()> is_wanted) {
  frame = its_frame;
  is_wanted_ = std::move(is_wanted);
  const bool lands = exchange != nullptr && exchange->operation != nullptr;
  window_ = lands ? exchange->operation->window() : nullptr;
  is_refused_ = false;
  Landing::begin(lands ? RequestWalk(exchange->begin, exchange->bytes, &frame) : RequestWalk());
}

// ---- TextArrival

void TextArrival::begin(const Frame& its_frame, std::uint64_t its_from) {
  frame = its_frame;
  from = its_from;
  text.assign(frame.payload_bytes, std::byte{0});
  filled_ = 0;
}

std::size_t TextArrival::room(std::span<ByteSpan> into) {
  if (filled_ == text.size()) return 0;
  into.front() = ByteSpan(text).subspan(filled_);
  return 1;
}

}  // namespace towpath::backends::messages
