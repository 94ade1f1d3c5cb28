#include <algorithm>

#include <towpath/backends/messages/target.h>
#include <towpath/sys/random.h>

namespace towpath::backends::messages {

// ---- ReadReply

void ReadReply::begin(const Frame& read, const PieceSet& refused, sys::GuardedCopy& guard,
                      bool may_fault) {
  copy_bytes(read.records, records_.data());
  read_ = read;
  read_.records = ConstByteSpan(records_).first(read.records.size());
  refused_ = refused;
  std::uint64_t bytes = 0;
  for (std::uint16_t i = 0; i < read_.header.count; ++i)
    if (!refused_.test(i)) bytes += read_.piece(i).bytes();
  SendSource::begin(FramePieceIterator(read_, &refused_), bytes, guard,
                    {.has_trailer = true, .may_fault = may_fault});
}

bool ReadReply::touches(std::uint64_t token) const {
  for (std::uint16_t i = 0; i < read_.header.count; ++i)
    if (!refused_.test(i) && read_.piece(i).token == token) return true;
  return false;
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

// decode_frame() has seen to it that nothing wraps here. An honest peer knows from the metadata
// what is read-only.
PieceVerdict Target::judge(const Piece& piece, sys::GuardedCopy::Direction direction) const {
  const Registered* const found = regions_.find(piece.token);
  if (found == nullptr) return {.verdict = Code::not_found};
  const RegionDescriptor& region = *found->region;
  const std::uint64_t reach = piece.stride * (piece.count - 1) + piece.length;
  if (!region.covers({piece.address, reach, region.device_id}))
    return {.verdict = Code::out_of_range};
  if (region.is_read_only && direction == sys::GuardedCopy::Direction::into_memory)
    return {.verdict = Code::io_error};
  return {.window = found->window, .may_fault = found->window == nullptr && region.may_fault};
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

ReadReply& Target::begin_answer(const Frame& read, const PieceSet& refused, bool may_fault) {
  const auto idle =
      std::ranges::find_if(replies_, [](const auto& reply) { return !reply->is_leaving(); });
  ReadReply& reply = idle != replies_.end()
                         ? **idle
                         : *replies_.emplace_back(std::make_unique_for_overwrite<ReadReply>());
  reply.begin(read, refused, guard_, may_fault);
  return reply;
}

// What may fault, each piece at the offset that its bytes have among those of all pieces. Later it
// is too late to refuse one.
void Target::fetch_guarded(const Frame& read) {
  if (!fetched_) fetched_ = std::make_unique_for_overwrite<std::byte[]>(kPayloadBytes);
  std::byte* own = fetched_.get();
  guard_.begin(sys::GuardedCopy::Direction::out_of_memory);
  for (std::uint16_t i = 0; i < read.header.count; ++i) {
    const Piece piece = read.piece(i);
    if (!verdicts_[i].may_fault) {
      own += piece.bytes();
      continue;
    }
    for (std::uint32_t k = 0; k < piece.count; ++k, own += piece.length)
      guard_.add({.own = own,
                  .address = piece.address + k * piece.stride,
                  .length = piece.length,
                  .tag = i});
  }
  for (const std::uint32_t faulty : guard_.finish()) verdicts_[faulty].verdict = Code::io_error;
}

// Of pieces that are not refused.
void Target::append(const Frame& read, const DeviceWindow* window, FrameWriter& answer) const {
  std::uint64_t from_device = 0;  // bytes in the window
  std::uint64_t guarded = 0;      // bytes of pieces before this one
  for (std::uint16_t i = 0; i < read.header.count; ++i) {
    const Piece piece = read.piece(i);
    const PieceVerdict& here = verdicts_[i];
    const bool is_refused = here.verdict != Code::ok;
    if (here.window != nullptr) {
      if (!is_refused) answer.append(window->room().subspan(from_device, piece.bytes()));
      from_device += piece.bytes();
    } else if (here.may_fault && !is_refused) {
      answer.append({fetched_.get() + guarded, piece.bytes()});
    } else if (!is_refused) {
      for (std::uint32_t k = 0; k < piece.count; ++k)
        answer.append(bytes_at(piece.address + k * piece.stride, piece.length));
    }
    guarded += piece.bytes();
  }
}

// Refusals come before the bytes, so what may fail to come is fetched first.
ReadReply* Target::gather(const Frame& read, FrameWriter& answer, OutboundFrame* out) {
  DeviceWindow* window = nullptr;
  bool has_host = false;
  bool may_fault = false;
  std::uint64_t bytes = 0;
  std::uint64_t extents = 0;
  PieceSet refused;
  verdicts_.clear();
  for (std::uint16_t i = 0; i < read.header.count; ++i) {
    const Piece piece = read.piece(i);
    const PieceVerdict& verdict =
        verdicts_.emplace_back(judge(piece, sys::GuardedCopy::Direction::out_of_memory));
    if (window == nullptr) window = verdict.window;
    refused.set(i, verdict.verdict != Code::ok);
    if (refused.test(i)) continue;
    has_host = has_host || verdict.window == nullptr;
    may_fault = may_fault || verdict.may_fault;
    bytes += piece.bytes();
    extents += piece.count;
  }
  if (window != nullptr && !has_host && out != nullptr) out->take_room(*window);
  const net::DeviceStagingBuffer* const room = out != nullptr ? out->room : nullptr;
  const bool leaves =
      window == nullptr && is_worth_parts(bytes, extents) && (read.header.flags & kTrailer) != 0;
  if (window != nullptr) fetch(read, *window, room);
  if (may_fault && !leaves) fetch_guarded(read);
  for (std::uint16_t i = 0; i < read.header.count; ++i) {
    if (verdicts_[i].verdict != Code::ok) answer.add(Refusal{i, verdicts_[i].verdict});
  }
  if (room != nullptr) {
    out->payload_bytes = bytes;
    return nullptr;
  }
  if (leaves) {
    answer.flag(kTrailer);
    return &begin_answer(read, refused, may_fault);
  }
  append(read, window, answer);
  return nullptr;
}

}  // namespace towpath::backends::messages
