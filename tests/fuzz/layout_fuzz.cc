// A layout from a peer. What is accepted must be whole: it encodes to bytes that read as the same
// layout, and its first and last page lie inside its regions, where it hands out pages. So that the
// checksum does not keep the fuzzer out, the input is also read as a bare payload, sealed here.
#include <cstddef>
#include <cstdint>

#include <towpath/layout/box_plan.h>
#include <towpath/layout/layout_codec.h>
#include <towpath/layout/plan.h>
#include <towpath/layout/remote_layout.h>
#include <towpath/wire/envelope.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using namespace towpath::layout;  // NOLINT: the words of this file
using towpath::ConstByteSpan;

void check_page(const Layout& layout, PageIndex page) {
  const auto extent = layout.memory_region(page);
  if (!check_pages(layout).ok()) return must(!extent.ok());
  must(extent.ok());
  const RegionExtent& region = layout.regions()[extent->region];
  must(extent->address >= region.address);
  must(extent->address - region.address <= region.length - extent->size);
}

void read(ConstByteSpan bytes) {
  const auto remote = RemoteLayout::decode(bytes);
  if (!remote.ok()) return;
  const Layout& layout = remote->layout();
  const auto again = encode(layout.descriptor());
  must(again.ok());
  must(decode_layout(*again).value() == layout.descriptor());
  const LayoutConfig& config = layout.config();
  check_page(layout, {0, 0, 0});
  check_page(layout, {config.num_blocks - 1, config.num_layers - 1, config.outer_dim - 1});
  must(!layout.memory_region({config.num_blocks, 0, 0}).ok());

  Layout elsewhere = layout;
  const BlockRange one{.source_first = config.num_blocks - 1, .target_first = 0, .count = 1};
  const bool may_copy = config.num_blocks > 1;  // otherwise onto itself
  const std::span blocks(&one, 1);
  must(plan_boxes(layout, elsewhere, blocks, {0, 1}).ok() == may_copy);
  // A run for every piece would be many where a peer's strides leave room between all elements.
  if (layout.kind() == LayoutKind::strided) return;
  must(plan(layout, elsewhere, blocks, {0, 1}).ok() == may_copy);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  read(bytes);
  read(towpath::wire::seal({.type = towpath::wire::MessageType::layout, .version = kLayoutVersion},
                           bytes));
  return 0;
}
