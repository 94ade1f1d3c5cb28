// Metadata from a peer. The fuzzer cannot guess checksums, so besides the bytes as they are it gets
// them sealed; what is accepted is written and read again to the same bytes.
#include <cstddef>
#include <cstdint>

#include <towpath/agent/metadata.h>
#include <towpath/wire/envelope.h>

#include "must.h"

namespace {

using towpath::fuzz::must;

void try_metadata(towpath::ConstByteSpan bytes) {
  const auto metadata = towpath::agent::decode_metadata(bytes);
  if (!metadata.ok()) return;
  const auto written = towpath::agent::encode(*metadata);
  must(written.ok());
  const auto again = towpath::agent::decode_metadata(*written);
  must(again.ok() && *towpath::agent::encode(*again) == *written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try_metadata(bytes);
  for (const std::uint16_t version : {1, 2})
    try_metadata(towpath::wire::seal(
        {.type = towpath::wire::MessageType::metadata, .version = version}, bytes));
  return 0;
}
