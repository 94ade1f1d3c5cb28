// Envelopes from a peer or a disk: open() never reads outside them, what it accepts is what seal()
// makes, and what seal() makes it accepts.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <towpath/wire/envelope.h>

#include "must.h"

namespace {

using towpath::ConstByteSpan;
using towpath::fuzz::must;
using towpath::wire::MessageType;
using towpath::wire::OpenLimits;

void accepted_is_what_seal_makes(ConstByteSpan bytes, const OpenLimits& limits) {
  const auto message = towpath::wire::open(bytes, limits);
  if (!message.ok()) return;
  must(message->payload.size() <= limits.max_payload_bytes);
  // A longer header holds what this version does not write.
  if (bytes.size() != towpath::wire::kHeaderBytes + message->payload.size()) return;
  must(std::ranges::equal(towpath::wire::seal(message->kind, message->payload), bytes));
}

void sealed_is_accepted(ConstByteSpan payload, const OpenLimits& limits) {
  const auto sealed = towpath::wire::seal({.type = limits.type, .version = 1}, payload);
  const auto message = towpath::wire::open(sealed, limits);
  must(message.ok() == (payload.size() <= limits.max_payload_bytes));
  if (message.ok()) must(std::ranges::equal(message->payload, payload));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const std::uint64_t limit : {std::uint64_t{16}, UINT64_MAX}) {
    const OpenLimits limits{
        .type = MessageType::metadata, .max_version = 2, .max_payload_bytes = limit};
    accepted_is_what_seal_makes(bytes, limits);
    sealed_is_accepted(bytes, limits);
  }
  return 0;
}
