// A layout as KVBM reports it: as JSON, as its packed metadata, and as what stands behind the
// metadata of an agent there, so that the metadata's checksum does not keep the fuzzer out. What is
// accepted makes sense as a layout of ours, and written back it reads as the same.
#include <cstddef>
#include <cstdint>

#include <towpath/agent/metadata.h>
#include <towpath/blockcopy/layout_package.h>
#include <towpath/compat/kvbm/bincode.h>
#include <towpath/compat/kvbm/layout.h>
#include <towpath/compat/kvbm/package.h>
#include <towpath/core/bytes.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using namespace towpath;        // NOLINT: the words of this file
using namespace towpath::kvbm;  // NOLINT: as above

constexpr std::uint64_t kWorker = 300;
const AgentIdentity kAgent{"prefill-0", 77};  // as the seeds say

void read_json(std::string_view json) {
  const Terms terms{.agent = kAgent, .unknown_order = layout::BlockFormat::nhd};
  const auto descriptor = parse_kvbm_layout(json, terms);
  if (!descriptor.ok()) return;
  must(descriptor->validate().ok());
  const auto again = to_kvbm_json(*descriptor);
  must(again.ok());
  must(parse_kvbm_layout(*again, {.agent = kAgent}).value() == *descriptor);
}

void read_packed(ConstByteSpan packed) {
  const auto package = package_from_kvbm(packed, layout::BlockFormat::nhd);
  if (!package.ok()) return;
  must(blockcopy::open_package(*package).ok());
  const auto again = package_to_kvbm(*package, kWorker);
  must(again.ok());
  must(package_from_kvbm(*again).value() == *package);
}

/// Of this worker, with the metadata of its agent, and the input for layouts.
Bytes behind_a_metadata(ConstByteSpan layouts) {
  agent::AgentMetadata metadata;
  metadata.identity = kAgent;
  metadata.generation = 1;
  BincodeWriter out;
  out.number(kWorker);
  out.text(kAgent.name);
  out.bytes(*agent::encode(metadata));
  Bytes packed = std::move(out).finish();
  packed.insert(packed.end(), layouts.begin(), layouts.end());
  return packed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  read_json(as_text(bytes));
  read_packed(bytes);
  read_packed(behind_a_metadata(bytes));
  return 0;
}
