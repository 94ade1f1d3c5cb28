// The caches of a peer, with its metadata. What is accepted holds together: every layout is of the
// metadata's agent, ids stand once, and where shards begin cannot make ranges wrap. So that
// checksums do not keep the fuzzer out, the input is also read as a bare payload, as the metadata,
// and as a layout.
#include <cstddef>
#include <cstdint>
#include <set>

#include <towpath/agent/metadata.h>
#include <towpath/blockcopy/layout_package.h>
#include <towpath/wire/envelope.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using namespace towpath;  // NOLINT: the words of this file

void read(ConstByteSpan bytes) {
  const auto open = blockcopy::open_package(bytes);
  if (!open.ok()) return;
  std::set<std::uint64_t> ids;
  for (const auto& entry : open->layouts) {
    must(ids.insert(entry.id).second);
    must(entry.layout.agent() == open->agent);
    const auto view =
        entry.layout.layout().view().placed_at(layout::Axis::layer, entry.first_layer);
    must(common(view.range(layout::Axis::layer), view.range(layout::Axis::layer)).count ==
         entry.layout.config().num_layers);
  }
}

Bytes some_metadata() {
  agent::AgentMetadata metadata;
  metadata.identity = {"prefill", 7};  // as the seeds say
  metadata.generation = 1;
  return *agent::encode(metadata);
}

Bytes sealed(wire::MessageType type, ConstByteSpan bytes) {
  return wire::seal({.type = type, .version = 1}, bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  read(bytes);
  read(sealed(wire::MessageType::layout_package, bytes));
  const Bytes layout = sealed(wire::MessageType::layout, bytes);
  const auto package =
      blockcopy::encode({some_metadata(), {{1, "g2", 0, 0, layout}, {2, "", 5, 4, layout}}});
  if (package.ok()) read(*package);
  return 0;
}
