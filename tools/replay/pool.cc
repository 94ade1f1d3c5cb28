#include "tools/replay/pool.h"

#include <utility>
#include <vector>

#include <towpath/layout/builder.h>
#include <towpath/memory/shared_region.h>

#include "tools/traces/pattern.h"

namespace towpath::tools::replay {

Result<layout::PhysicalLayout> open_host_pool(const layout::LayoutConfig& config,
                                              agent::Agent& agent) {
  TOWPATH_TRY(const layout::Geometry geometry,
              layout::Geometry::make(config, layout::LayoutKind::fully_contiguous));
  TOWPATH_TRY(auto pool, memory::SharedMemoryRegion::create(
                             {.name = "towpath-replay", .size_bytes = geometry.region_bytes}));
  TOWPATH_TRY(auto builder, layout::PhysicalLayoutBuilder(agent)
                                .with_config(config)
                                .fully_contiguous()
                                .with_memory_regions(std::vector{std::move(pool)}));
  return std::move(builder).build();
}

Result<std::uint64_t> fill_block(const layout::PhysicalLayout& layout, kv::BlockHash hash,
                                 kv::SlotId slot) {
  const layout::LayoutConfig& config = layout.config();
  std::uint64_t bytes = 0;
  for (std::uint64_t layer = 0; layer < config.num_layers; ++layer) {
    for (std::uint64_t outer = 0; outer < config.outer_dim; ++outer) {
      TOWPATH_TRY(const ByteSpan page, layout.bytes({slot, layer, outer}));
      traces::fill({.hash = hash,
                    .layer = layer,
                    .outer = outer,
                    .bytes_per_token = page.size() / config.page_size},
                   page);
      bytes += page.size();
    }
  }
  return bytes;
}

Result<kv::Digest> digest_of_slot(const layout::PhysicalLayout& layout, kv::BlockHash hash,
                                  kv::SlotId slot) {
  kv::Digester digester(hash);
  return kv::digest_block(digester, layout, slot);
}

}  // namespace towpath::tools::replay
