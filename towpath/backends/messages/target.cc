#include <algorithm>

#include <towpath/backends/messages/target.h>
#include <towpath/sys/random.h>

namespace towpath::backends::messages {

// ---- ReadReply

void ReadReply::begin(const Frame& read, const PieceSet& refused) {
  std::ranges::copy(read.records, records_.begin());
  read_ = read;
  read_.records = ConstByteSpan(records_).first(read.records.size());
  refused_ = refused;
  bytes_ = 0;
  for (std::uint16_t i = 0; i < read_.header.count; ++i)
    if (!refused_.test(i)) bytes_ += read_.piece(i).bytes();
  SendSource::begin(FramePieceIterator(read_, &refused_));
}

bool ReadReply::touches(std::uint64_t token) const {
  for (std::uint16_t i = 0; i < read_.header.count; ++i)
    if (!refused_.test(i) && read_.piece(i).token == token) return true;
  return false;
}

void ReadReply::left(std::uint64_t bytes) {
  bytes_ -= bytes;
  SendSource::left(bytes);
}

// ---- Target

std::uint64_t Target::add(const RegionDescriptor& region, DeviceWindow* window) {
  std::uint64_t token = next_token();
  while (!regions_.add({token, &region, window})) token = next_token();
  return token;
}

std::uint64_t Target::next_token() {
  if (tokens_left_ == 0) {
    sys::random_u64s(tokens_);
    tokens_left_ = tokens_.size();
  }
  return tokens_[--tokens_left_];
}

void Target::remove(std::uint64_t token) {
  for (const auto& reply : replies_) {
    if (reply->is_leaving() && reply->touches(token)) reply->path->copy(*reply);
  }
  regions_.remove(token);
}

const RegionDescriptor* Target::find(std::uint64_t token) const {
  const Registered* const found = regions_.find(token);
  return found == nullptr ? nullptr : found->region;
}

// decode_frame() has seen to it that nothing wraps here.
PieceVerdict Target::judge(const Piece& piece) const {
  const Registered* const found = regions_.find(piece.token);
  if (found == nullptr) return {.verdict = Code::not_found};
  const RegionDescriptor& region = *found->region;
  const std::uint64_t reach = piece.stride * (piece.count - 1) + piece.length;
  if (!region.covers({piece.address, reach, region.device_id}))
    return {.verdict = Code::out_of_range};
  return {.window = found->window};
}

// The pieces that are a device's, one behind the other, into the room when it is sealed, or into
// the window. One window's stream does for all devices.
void Target::fetch(const Frame& read, DeviceWindow& window, const net::DeviceStagingBuffer* room) {
  PieceSet others;
  for (std::uint16_t i = 0; i < read.header.count; ++i)
    others.set(i, verdicts_[i].window == nullptr);
  window.fetch_all(FramePieceIterator(read, &others), DeviceFrames::payload_place(room, window));
  if (room != nullptr || window.finish().ok()) return;
  for (PieceVerdict& verdict : verdicts_) {
    if (verdict.window != nullptr) verdict.verdict = Code::io_error;
  }
}

ReadReply& Target::begin_answer(const Frame& read, const PieceSet& refused) {
  const auto idle =
      std::ranges::find_if(replies_, [](const auto& reply) { return !reply->is_leaving(); });
  ReadReply& reply = idle != replies_.end()
                         ? **idle
                         : *replies_.emplace_back(std::make_unique_for_overwrite<ReadReply>());
  reply.begin(read, refused);
  return reply;
}

// Refusals come before the bytes, so what a device may fail to give is fetched first.
ReadReply* Target::gather(const Frame& read, FrameWriter& answer, OutboundFrame* out) {
  DeviceWindow* window = nullptr;
  bool has_host = false;
  verdicts_.clear();
  for (std::uint16_t i = 0; i < read.header.count; ++i) {
    const PieceVerdict& verdict = verdicts_.emplace_back(judge(read.piece(i)));
    if (window == nullptr) window = verdict.window;
    has_host = has_host || (verdict.verdict == Code::ok && verdict.window == nullptr);
  }
  if (window != nullptr && !has_host && out != nullptr) out->take_room(*window);
  const net::DeviceStagingBuffer* const room = out != nullptr ? out->room : nullptr;
  if (window != nullptr) fetch(read, *window, room);

  PieceSet refused;
  std::uint64_t bytes = 0;
  std::uint64_t extents = 0;
  for (std::uint16_t i = 0; i < read.header.count; ++i) {
    const Piece piece = read.piece(i);
    refused.set(i, verdicts_[i].verdict != Code::ok);
    if (refused.test(i)) {
      answer.add(Refusal{i, verdicts_[i].verdict});
    } else {
      bytes += piece.bytes();
      extents += piece.count;
    }
  }
  if (room != nullptr) {
    out->payload_bytes = bytes;
    return nullptr;
  }
  if (window == nullptr && is_worth_parts(bytes, extents)) return &begin_answer(read, refused);
  std::uint64_t fetched = 0;
  for (std::uint16_t i = 0; i < read.header.count; ++i) {
    const Piece piece = read.piece(i);
    if (verdicts_[i].window != nullptr) {
      if (!refused.test(i)) answer.append(window->room().subspan(fetched, piece.bytes()));
      fetched += piece.bytes();
    } else if (!refused.test(i)) {
      for (std::uint32_t k = 0; k < piece.count; ++k)
        answer.append(bytes_at(piece.address + k * piece.stride, piece.length));
    }
  }
  return nullptr;
}

}  // namespace towpath::backends::messages
