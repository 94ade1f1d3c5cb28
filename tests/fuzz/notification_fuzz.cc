// A notification's envelope from a peer, as it is and sealed; what is accepted reads the same
// again.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <towpath/agent/channel.h>
#include <towpath/wire/envelope.h>

#include "must.h"

namespace {

using towpath::fuzz::must;

void try_notification(towpath::ConstByteSpan bytes) {
  using towpath::agent::decode_envelope;
  const auto envelope = decode_envelope(bytes);
  if (!envelope.ok()) return;
  const towpath::Bytes written = towpath::agent::encode(*envelope);
  const auto again = decode_envelope(written);
  must(again.ok() && again->number == envelope->number && again->kind == envelope->kind);
  must(std::ranges::equal(again->payload, envelope->payload));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try_notification(bytes);
  try_notification(
      towpath::wire::seal({.type = towpath::wire::MessageType::notification, .version = 1}, bytes));
  return 0;
}
