// What a ucx backend reads from strangers: connection info, keys and hellos of cards, and frames.
// The first byte chooses the reader; for frames it may also give a valid header to begin with, so
// that the search is for fields. Frames that are accepted are then taken by an owner with one small
// registration, which must not touch a byte outside of it.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <towpath/backends/ucx/frames.h>
#include <towpath/backends/ucx/handshake.h>
#include <towpath/backends/ucx/owner.h>

namespace {

using namespace towpath;
using namespace towpath::backends::ucx;

void must(bool holds) {
  if (!holds) std::abort();
}

/// The registration lies between two guards.
struct Memory {
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kMark{0xA5};
  Memory() : bytes(3 * kGuard, kMark) {
    region = {.address = address_of(bytes.data()) + kGuard, .length = kGuard};
    token = owner.add(region);
  }
  void check() const {
    const auto is_mark = [](std::byte byte) { return byte == kMark; };
    must(std::all_of(bytes.begin(), bytes.begin() + kGuard, is_mark));
    must(std::all_of(bytes.end() - kGuard, bytes.end(), is_mark));
  }
  Bytes bytes;
  RegionDescriptor region;  // stays where it is while `owner` knows it
  Owner owner;
  std::uint64_t token = 0;
};

/// Tokens and addresses are random at run time: small numbers stand for them.
Bytes translated(ConstByteSpan input, const Memory& memory) {
  Bytes bytes(input.begin(), input.end());
  const auto frame = decode_frame(bytes);
  if (!frame.ok()) return bytes;
  const FrameKind kind = frame->header.kind;
  if (kind != FrameKind::write && kind != FrameKind::read) return bytes;
  Bytes room(kFrameBytes);
  FrameHeader header = frame->header;
  header.count = 0;
  FrameWriter writer(room, header);
  for (std::size_t i = 0; i < frame->header.count; ++i) {
    Piece piece = frame->piece(i);
    if (piece.token == 1) piece.token = memory.token;
    piece.address += address_of(memory.bytes.data());
    writer.add(piece);
  }
  writer.append(frame->payload);
  room.resize(writer.finish());
  return room;
}

void take(ConstByteSpan input) {
  Memory memory;
  const Bytes bytes = translated(input, memory);
  const auto frame = decode_frame(bytes);
  if (!frame.ok()) return;
  Bytes room(kFrameBytes);
  const bool reads = frame->header.kind == FrameKind::read;
  FrameWriter answer(room, {.kind = reads ? FrameKind::data : FrameKind::wrote});
  if (reads) memory.owner.gather(*frame, answer);
  Grant grant([] { return true; });
  if (frame->header.kind == FrameKind::write) must(memory.owner.place(*frame, answer, grant));
  room.resize(answer.finish());
  must(decode_frame(room).ok());
  memory.check();
}

void read_card(unsigned which, ConstByteSpan bytes) {
  if (which == 0) {
    if (const auto info = decode_connection_info(bytes); info.ok())
      must(decode_connection_info(encode(*info)).ok());
  } else if (which == 1) {
    if (const auto key = decode_key(bytes); key.ok()) must(decode_key(encode(*key)).ok());
  } else if (const auto hello = decode_hello(bytes); hello.ok()) {
    must(decode_hello(encode(*hello)).ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  if ((data[0] & 4) == 0) {
    read_card(data[0] % 4, rest);
    return 0;
  }
  Bytes bytes(kHeaderBytes);
  FrameWriter(bytes, {.kind = static_cast<FrameKind>(data[0] >> 4)}).finish();
  if ((data[0] & 8) == 0) bytes.clear();
  if (!bytes.empty() && !rest.empty()) bytes[6] = rest.front();  // records
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  take(bytes);
  return 0;
}
