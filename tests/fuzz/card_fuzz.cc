// A card from a peer. The fuzzer cannot guess checksums, so besides the bytes as they are it gets
// them sealed; what is accepted is written and read again to the same bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <towpath/agent/card.h>
#include <towpath/wire/envelope.h>

namespace {

void try_card(towpath::ConstByteSpan bytes) {
  const auto card = towpath::agent::decode_card(bytes);
  if (!card.ok()) return;
  const auto written = towpath::agent::encode(*card);
  if (!written.ok()) std::abort();
  const auto again = towpath::agent::decode_card(*written);
  if (!again.ok() || *towpath::agent::encode(*again) != *written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try_card(bytes);
  for (const std::uint16_t version : {1, 2})
    try_card(
        towpath::wire::seal({.type = towpath::wire::MessageType::card, .version = version}, bytes));
  return 0;
}
