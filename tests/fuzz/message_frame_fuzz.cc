// What a backend of messages reads from outside: connection info and keys of metadata, what peers
// give each other in a handshake, and frames. The first byte chooses the reader; for frames it may
// also give a valid header to begin with, so that the search is for fields. Frames that are
// accepted are then taken by an owner with one small registration, which must not touch a byte
// outside of it.
#include <algorithm>
#include <cstdint>

#include <towpath/backends/messages/connection_info.h>
#include <towpath/backends/messages/inbound_frames.h>
#include <towpath/backends/messages/testing/flat_frame.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using namespace towpath;
using namespace towpath::backends::messages;
using namespace towpath::backends::messages::testing;

/// The registration lies between two guards.
struct Memory {
  static constexpr std::size_t kGuard = 64;
  static constexpr std::size_t kRegion = 8192;  // long enough for extents that land straight
  static constexpr std::byte kMark{0xA5};
  Memory() : bytes(kRegion + 2 * kGuard, kMark) {
    region = {.address = address_of(bytes.data()) + kGuard, .length = kRegion};
    token = target.add(region);
  }
  void check() const {
    const auto is_mark = [](std::byte byte) { return byte == kMark; };
    must(std::all_of(bytes.begin(), bytes.begin() + kGuard, is_mark));
    must(std::all_of(bytes.end() - kGuard, bytes.end(), is_mark));
  }
  Bytes bytes;
  RegionDescriptor region;  // stays where it is while `owner` knows it
  sys::GuardedCopy guard;
  Target target{guard};
  std::uint64_t token = 0;
};

/// Tokens and addresses are random at run time: small numbers stand for them.
Bytes translated(ConstByteSpan input, const Memory& memory) {
  Bytes bytes(input.begin(), input.end());
  const auto frame = decode_flat(bytes);
  if (!frame.ok()) return bytes;
  const FrameKind kind = frame->header.kind;
  if (kind != FrameKind::write && kind != FrameKind::read) return bytes;
  net::MessageBuffer room(kFrameBytes);
  FrameHeader header = frame->header;
  header.count = 0;
  FrameWriter writer(room, header);
  for (std::size_t i = 0; i < frame->header.count; ++i) {
    Piece piece = frame->piece(i);
    if (piece.token == 1) piece.token = memory.token;
    piece.address += address_of(memory.bytes.data());
    writer.add(piece);
  }
  writer.append(split(bytes).second);
  writer.finish();
  return flat(room);
}

/// As a carrier of streams brings it: in parts, whose size the input chooses.
void place(const Frame& frame, ConstByteSpan payload, std::size_t step, Memory& memory) {
  net::MessageBuffer room(kFrameBytes);
  InboundWrite inbound([&](InboundWrite& done, bool) {
    FrameWriter answer(room, {.kind = FrameKind::wrote});
    for (const Refusal& refusal : done.refusals()) answer.add(refusal);
    answer.finish();
    must(!done.is_stale());
  });
  inbound.begin(frame, memory.target, [] { return true; });
  for (; !payload.empty(); payload = payload.subspan(std::min(step, payload.size())))
    must(inbound.take(payload.first(std::min(step, payload.size()))));
  inbound.done(true);
  must(decode_flat(flat(room)).ok());
}

void gather(const Frame& frame, Memory& memory) {
  net::MessageBuffer room(kFrameBytes);
  FrameWriter answer(room, {.kind = FrameKind::data});
  ReadReply* const rest = memory.target.gather(frame, answer);
  answer.finish();
  if (rest != nullptr) net::append_rest(room, *rest, rest->bytes());
  must(decode_flat(flat(room)).ok());
}

void take(ConstByteSpan input, std::size_t step) {
  Memory memory;
  const Bytes bytes = translated(input, memory);
  const auto frame = decode_flat(bytes);
  if (!frame.ok()) return;
  if (frame->header.kind == FrameKind::read) gather(*frame, memory);
  if (frame->header.kind == FrameKind::write) place(*frame, split(bytes).second, step, memory);
  memory.check();
}

/// An empty seal behind the records, where a session would put one.
Bytes with_seal(Bytes bytes) {
  const ConstByteSpan head = split(bytes).first;
  const bool has_place = head.size() >= kHeaderBytes + net::kSealBytes;
  const std::size_t at = has_place ? head.size() - net::kSealBytes : bytes.size();
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), net::kSealBytes, std::byte{0});
  return bytes;
}

void read_metadata(unsigned which, ConstByteSpan bytes) {
  if (which == 0) {
    if (const auto info = decode_connection_info(bytes); info.ok())
      must(decode_connection_info(encode(*info)).ok());
  } else if (which == 1) {
    if (const auto key = decode_key(bytes); key.ok()) must(decode_key(encode(*key)).ok());
  } else if (const auto group = decode_party_data(bytes); group.ok()) {
    must(decode_party_data(encode(*group)).ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  if ((data[0] & 4) == 0) {
    read_metadata(data[0] % 4, rest);
    return 0;
  }
  net::MessageBuffer header(kMaxHeadBytes);
  FrameWriter(header, {.kind = static_cast<FrameKind>(data[0] >> 4)}).finish();
  Bytes bytes = flat(header);
  bytes.resize((data[0] & 8) == 0 ? 0 : kHeaderBytes);
  if (!bytes.empty() && !rest.empty()) bytes[6] = rest.front();  // records
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  take(with_seal(bytes), 1 + data[0] % 7 * 33U);
  return 0;
}
