#include <cstring>

#include <towpath/backends/ucx/owner.h>
#include <towpath/sys/random.h>

namespace towpath::backends::ucx {

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

Code Owner::place(const Piece& piece, const std::byte* from) const {
  const Judged judged = judge(piece);
  if (judged.verdict != Code::ok) return judged.verdict;
  if (DeviceWindow* const window = judged.in->window)
    return window->store(piece, {from, piece.bytes()}).ok() ? Code::ok : Code::io_error;
  for (std::uint32_t k = 0; k < piece.count; ++k, from += piece.length)
    std::memcpy(bytes_at(piece.address + k * piece.stride, piece.length).data(), from,
                piece.length);
  return Code::ok;
}

void Owner::place(const Frame& write, FrameWriter& answer) const {
  const std::byte* from = write.payload.data();
  for (std::uint16_t i = 0; i < write.header.count; ++i) {
    const Piece piece = write.piece(i);
    if (const Code verdict = place(piece, from); verdict != Code::ok)
      answer.add(Refusal{i, verdict});
    from += piece.bytes();
  }
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
