// What a client sends to a peer listener: the hello, then frames. The first byte says how the rest
// comes: as a stream, or as the payload of an envelope that is true.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <towpath/net/frame_reader.h>
#include <towpath/net/hello.h>
#include <towpath/rendezvous/frame.h>

namespace {

using namespace towpath;

constexpr std::size_t kMaxMetadata = 4096;

void feed_stream(ConstByteSpan rest) {
  const std::size_t size = rest.size();
  net::FrameReader reader(rendezvous::frame_limits(kMaxMetadata));
  while (!rest.empty()) {
    const auto piece = rest.first(std::min(rest.size(), reader.wanted_bytes()));
    rest = rest.subspan(piece.size());
    const auto frame = reader.take(piece);
    if (!frame.ok()) return;
    if (*frame) (void)rendezvous::decode_frame((*frame)->payload());
    if (reader.buffered_bytes() > size) __builtin_trap();
  }
}

// What can be read can be written, and reads the same.
void feed_payload(ConstByteSpan payload) {
  (void)net::check_hello(payload, rendezvous::kMetadataService);
  const auto frame = rendezvous::decode_frame(payload);
  if (!frame.ok()) return;
  const Bytes sealed = rendezvous::encode(*frame);
  const auto again = rendezvous::decode_frame(
      wire::open(sealed, rendezvous::frame_limits(payload.size()))->payload);
  if (again->name != frame->name || again->metadata != frame->metadata ||
      again->kind != frame->kind)
    __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  data[0] % 2 == 0 ? feed_stream(rest) : feed_payload(rest);
  return 0;
}
