#include <algorithm>
#include <cstring>

#include <towpath/backends/ucx/owner.h>
#include <towpath/sys/random.h>

namespace towpath::backends::ucx {
namespace {

/// A piece in steps of at most Grant::kStepBytes: several stretches, one, or a part of one.
class Steps {
 public:
  explicit Steps(const Piece& piece)
      : piece_(piece),
        length_(std::min<std::uint64_t>(piece.length, Grant::kStepBytes)),
        at_once_(std::max<std::uint64_t>(1, Grant::kStepBytes / piece.length)) {}

  bool done() const { return stretch_ == piece_.count; }
  Piece take() {
    Piece step = piece_;
    step.address += stretch_ * piece_.stride + offset_;
    step.length = static_cast<std::uint32_t>(std::min(length_, piece_.length - offset_));
    step.count = static_cast<std::uint32_t>(std::min(at_once_, piece_.count - stretch_));
    offset_ += step.length;
    if (offset_ == piece_.length) {
      offset_ = 0;
      stretch_ += step.count;
    }
    return step;
  }

 private:
  const Piece piece_;
  const std::uint64_t length_;
  const std::uint64_t at_once_;  ///< stretches
  std::uint64_t stretch_ = 0;    ///< the next, and where in it
  std::uint64_t offset_ = 0;
};

bool land(const Piece& piece, ConstByteSpan bytes, DeviceWindow* window) {
  if (window != nullptr) return window->store(piece, bytes).ok();
  const std::byte* from = bytes.data();
  for (std::uint32_t k = 0; k < piece.count; ++k, from += piece.length)
    std::memcpy(bytes_at(piece.address + k * piece.stride, piece.length).data(), from,
                piece.length);
  return true;
}

}  // namespace

std::uint64_t Owner::add(const RegionDescriptor& region, DeviceWindow* window) {
  std::uint64_t token = next_token();
  while (!regions_.add({token, &region, window})) token = next_token();
  return token;
}

std::uint64_t Owner::next_token() {
  if (tokens_left_ == 0) {
    sys::random_u64s(tokens_);
    tokens_left_ = tokens_.size();
  }
  return tokens_[--tokens_left_];
}

const RegionDescriptor* Owner::find(std::uint64_t token) const {
  const Registered* const found = regions_.find(token);
  return found == nullptr ? nullptr : found->region;
}

// decode_frame() has seen to it that nothing wraps here.
Owner::Judged Owner::judge(const Piece& piece) const {
  const Registered* const found = regions_.find(piece.token);
  if (found == nullptr) return {.verdict = Code::not_found};
  const RegionDescriptor& region = *found->region;
  const std::uint64_t reach = piece.stride * (piece.count - 1) + piece.length;
  if (!region.covers({piece.address, reach, region.device_id}))
    return {.verdict = Code::out_of_range};
  return {.in = found};
}

std::optional<Code> Owner::place(const Piece& piece, const std::byte* from, Grant& grant) const {
  const Judged judged = judge(piece);
  if (judged.verdict != Code::ok) return judged.verdict;
  for (Steps steps(piece); !steps.done();) {
    const Piece step = steps.take();
    if (!grant.holds_for(step.bytes())) return std::nullopt;
    if (!land(step, {from, step.bytes()}, judged.in->window)) return Code::io_error;
    from += step.bytes();
  }
  return Code::ok;
}

bool Owner::place(const Frame& write, FrameWriter& answer, Grant& grant) const {
  const std::byte* from = write.payload.data();
  for (std::uint16_t i = 0; i < write.header.count; ++i) {
    const Piece piece = write.piece(i);
    const auto verdict = place(piece, from, grant);
    if (!verdict) return false;
    if (*verdict != Code::ok) answer.add(Refusal{i, *verdict});
    from += piece.bytes();
  }
  return true;
}

Owner::Gathered Owner::fetch(const Piece& piece) const {
  const Judged judged = judge(piece);
  if (judged.verdict != Code::ok) return {.verdict = judged.verdict};
  DeviceWindow* const window = judged.in->window;
  if (window == nullptr) return {};
  const auto fetched = window->fetch(piece);
  if (!fetched.ok()) return {.verdict = Code::io_error};
  return {.window = window, .fetched = *fetched};
}

// Refusals come before the bytes, so what a device may fail to give is fetched first.
void Owner::gather(const Frame& read, FrameWriter& answer) {
  gathered_.clear();
  for (std::uint16_t i = 0; i < read.header.count; ++i) {
    gathered_.push_back(fetch(read.piece(i)));
    if (gathered_.back().verdict != Code::ok) answer.add(Refusal{i, gathered_.back().verdict});
  }
  for (std::uint16_t i = 0; i < read.header.count; ++i) {
    if (gathered_[i].verdict != Code::ok) continue;
    const Piece piece = read.piece(i);
    if (DeviceWindow* const window = gathered_[i].window) {
      answer.append(gathered_[i].fetched);
      window->clear();
      continue;
    }
    for (std::uint32_t k = 0; k < piece.count; ++k)
      answer.append(bytes_at(piece.address + k * piece.stride, piece.length));
  }
}

}  // namespace towpath::backends::ucx
