// A LayoutConfig in one line. For tests only. Thread: any.
#pragma once

#include <cstdint>

#include <towpath/layout/layout_config.h>

namespace towpath::layout::testing {

/// K and V, whatever else is said.
inline LayoutConfig config_of(std::uint64_t blocks, std::uint64_t layers, std::uint64_t page,
                              std::uint64_t inner) {
  return {.num_blocks = blocks,
          .num_layers = layers,
          .outer_dim = 2,
          .page_size = page,
          .inner_dim = inner};
}

}  // namespace towpath::layout::testing
