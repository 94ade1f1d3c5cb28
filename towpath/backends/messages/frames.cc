#include <algorithm>
#include <cstring>
#include <utility>

#include <towpath/backends/messages/frames.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/wire/little_endian.h>

namespace towpath::backends::messages {
namespace {

using wire::load;
using wire::store;

constexpr std::uint32_t kMagic = 0x00555054;  // "TPU", and the version above it
constexpr unsigned kFrameVersion = 5;
constexpr unsigned kVersionShift = 24;

Status broken(std::string_view what) {
  return error(Code::corrupt, cat("a frame of a peer: ", what),
               "use the same release on both sides");
}

bool has_pieces(FrameKind kind) { return kind == FrameKind::write || kind == FrameKind::read; }
bool has_refusals(FrameKind kind) { return kind == FrameKind::wrote || kind == FrameKind::data; }

/// Of a record.
std::size_t record_bytes(FrameKind kind) {
  if (has_pieces(kind)) return kPieceBytes;
  if (has_refusals(kind)) return kRefusalBytes;
  return kind == FrameKind::note ? net::Mac::kProofBytes : 0;
}

std::size_t max_records(FrameKind kind) {
  return kind == FrameKind::note ? 1 : record_bytes(kind) == 0 ? 0 : kMaxPieces;
}

std::uint64_t max_payload(FrameKind kind) {
  switch (kind) {
    case FrameKind::write:
    case FrameKind::data: return kPayloadBytes;
    case FrameKind::hello:
    case FrameKind::note: return kMaxNoteBytes;
    default: return 0;
  }
}

FrameHeader load_header(ConstByteSpan bytes) {
  return {.kind = static_cast<FrameKind>(bytes[4]),
          .flags = load<std::uint8_t>(bytes.subspan(5)),
          .count = load<std::uint16_t>(bytes.subspan(6)),
          .session = load<std::uint64_t>(bytes.subspan(8)),
          .stamp = load<std::uint64_t>(bytes.subspan(16)),
          .echo = load<std::uint64_t>(bytes.subspan(24)),
          .id = load<std::uint64_t>(bytes.subspan(32))};
}

bool makes_sense(const Piece& piece) {
  if (piece.length == 0 || piece.count == 0) return false;
  const auto reach = checked_multiply(piece.stride, piece.count - 1);
  const auto last = reach ? checked_add(piece.address, *reach) : std::nullopt;
  return last && checked_add(*last, piece.length);
}

Status check_pieces(const Frame& frame) {
  if (frame.header.count == 0) return broken("no pieces");
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < frame.header.count; ++i) {
    const Piece piece = frame.piece(i);
    if (!makes_sense(piece)) return broken(cat("piece ", i, " is none"));
    bytes += piece.bytes();  // each below 2^64 / 2 and refused at the first above the limit
    if (piece.bytes() > kPayloadBytes || bytes > kPayloadBytes)
      return broken(cat("its pieces come to more than ", kPayloadBytes, " bytes"));
  }
  const bool carries = frame.header.kind == FrameKind::write;
  if (frame.payload_bytes == (carries ? bytes : 0)) return {};
  return broken(cat(frame.payload_bytes, " bytes for pieces of ", bytes));
}

bool may_refuse(Code code) {
  return code == Code::not_found || code == Code::out_of_range || code == Code::io_error;
}

Status check_refusals(const Frame& frame) {
  for (std::size_t i = 0; i < frame.header.count; ++i) {
    const Refusal refusal = frame.refusal(i);
    if (!may_refuse(refusal.code)) return broken(cat("refusal ", i, " has no reason"));
    if (refusal.piece >= kMaxPieces || (i > 0 && refusal.piece <= frame.refusal(i - 1).piece))
      return broken(cat("refusal ", i, " names piece ", refusal.piece));
  }
  return {};
}

}  // namespace

Piece Frame::piece(std::size_t i) const noexcept {
  const ConstByteSpan at = records.subspan(i * kPieceBytes);
  return {.token = load<std::uint64_t>(at),
          .address = load<std::uint64_t>(at.subspan(8)),
          .stride = load<std::uint64_t>(at.subspan(16)),
          .length = load<std::uint32_t>(at.subspan(24)),
          .count = load<std::uint32_t>(at.subspan(28))};
}

Refusal Frame::refusal(std::size_t i) const noexcept {
  const ConstByteSpan at = records.subspan(i * kRefusalBytes);
  return {.piece = load<std::uint16_t>(at),
          .code = static_cast<Code>(load<std::uint8_t>(at.subspan(2)))};
}

net::Mac::Proof Frame::payload_proof() const noexcept {
  return {load<std::uint64_t>(records), load<std::uint64_t>(records.subspan(8))};
}

namespace {

Status check_magic(ConstByteSpan head) {
  const auto magic = load<std::uint32_t>(head);
  const unsigned version = magic >> kVersionShift;
  if (magic == (kMagic | kFrameVersion << kVersionShift)) return {};
  if ((magic ^ kMagic) << (32 - kVersionShift) != 0) return broken("another magic");
  return error(
      Code::unsupported,
      cat("a frame of a peer has version ", version, ", this side has version ", kFrameVersion),
      "use the same release on both sides");
}

}  // namespace

Result<Frame> decode_frame(ConstByteSpan head, std::uint64_t body_bytes) {
  if (head.size() < kHeaderBytes) return broken(cat("only ", head.size(), " bytes"));
  TOWPATH_TRY(check_magic(head));
  Frame frame{.header = load_header(head), .records = {}, .payload_bytes = body_bytes};
  if (frame.has_trailer()) {
    if (body_bytes <= sizeof(Trailer)) return broken("a trailer of no bytes");
    frame.payload_bytes -= sizeof(Trailer);
  }
  const FrameKind kind = frame.header.kind;
  if (kind < FrameKind::hello || kind > FrameKind::fenced)
    return broken(cat("kind ", static_cast<unsigned>(kind)));
  const std::size_t count = frame.header.count;
  if (count > max_records(kind) || (kind == FrameKind::note && count == 0))
    return broken(cat(count, " records"));
  const std::size_t records = count * record_bytes(kind);
  const std::size_t seal = is_sealed(kind) ? net::kSealBytes : 0;
  if (head.size() != kHeaderBytes + records + seal || frame.payload_bytes > max_payload(kind))
    return broken(cat(head.size(), " and ", body_bytes, " bytes with ", count, " records"));
  frame.records = head.subspan(kHeaderBytes, records);
  if (has_pieces(kind)) TOWPATH_TRY(check_pieces(frame));
  if (has_refusals(kind)) TOWPATH_TRY(check_refusals(frame));
  return frame;
}

// ---- FrameWriter

void FrameWriter::add(const Piece& piece) noexcept {
  const ByteSpan at = room_.subspan(size_, kPieceBytes);
  store(at, piece.token);
  store(at.subspan(8), piece.address);
  store(at.subspan(16), piece.stride);
  store(at.subspan(24), piece.length);
  store(at.subspan(28), piece.count);
  size_ += kPieceBytes;
  ++header_.count;
}

void FrameWriter::add(const Refusal& refusal) noexcept {
  const ByteSpan at = room_.subspan(size_, kRefusalBytes);
  store(at, refusal.piece);
  store(at.subspan(2), static_cast<std::uint16_t>(refusal.code));
  size_ += kRefusalBytes;
  ++header_.count;
}

void FrameWriter::add(const net::Mac::Proof& payload_proof) noexcept {
  const ByteSpan at = room_.subspan(size_, net::Mac::kProofBytes);
  store(at, payload_proof.low);
  store(at.subspan(8), payload_proof.high);
  size_ += net::Mac::kProofBytes;
  ++header_.count;
}

void FrameWriter::end_head() noexcept {
  if (std::exchange(has_ended_head_, true) || !is_sealed(header_.kind)) return;
  std::memset(room_.data() + size_, 0, net::kSealBytes);
  size_ += net::kSealBytes;
}

void FrameWriter::append(ConstByteSpan bytes) noexcept {
  copy_bytes(bytes, append_room(bytes.size()).data());
}

ByteSpan FrameWriter::append_room(std::size_t bytes) noexcept {
  end_head();
  const ByteSpan appended = room_.subspan(size_, bytes);
  size_ += bytes;
  payload_bytes_ += bytes;
  return appended;
}

void FrameWriter::finish() noexcept {
  end_head();
  store(room_, kMagic | kFrameVersion << kVersionShift);
  room_[4] = static_cast<std::byte>(header_.kind);
  store(room_.subspan(5), header_.flags);
  store(room_.subspan(6), header_.count);
  store(room_.subspan(8), header_.session);
  store(room_.subspan(16), header_.stamp);
  store(room_.subspan(24), header_.echo);
  store(room_.subspan(32), header_.id);
  buffer_.size = size_;
  buffer_.body_bytes = payload_bytes_;
}

}  // namespace towpath::backends::messages
