// The KV-cache geometry of well-known models, by name, and the same shrunk to fit a small machine.
//
// Figures: the models' public configurations, as the KV benchmarks of the field list them.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <towpath/core/result.h>
#include <towpath/layout/layout_config.h>

namespace towpath::traces {

struct ModelGeometry {
  std::string_view name;
  std::uint64_t num_layers = 0;
  std::uint64_t outer_dim = 2;  ///< 2: K and V; 1: one latent vector (MLA)
  std::uint64_t kv_heads = 0;   ///< 1 for a latent vector
  std::uint64_t head_dim = 0;   ///< elements per head; of a latent vector all of them
  std::uint64_t dtype_width_bytes = 2;

  constexpr std::uint64_t bytes_per_token() const noexcept {
    return num_layers * outer_dim * kv_heads * head_dim * dtype_width_bytes;
  }
};

std::span<const ModelGeometry> all_models() noexcept;

/// Whatever the case. Errors: not_found, with the names that there are.
Result<ModelGeometry> model_named(std::string_view name);

struct ScaledShape {
  std::uint64_t scale = 1;  ///< elements per token are divided by this
  std::uint64_t num_blocks = 0;
  std::uint64_t tokens_per_block = 512;
};

/// Layers, K and V, blocks, tokens and their order stay; the bytes per token shrink.
/// Errors: invalid_argument (a scale of 0, or one that leaves no element; the largest is named).
Result<layout::LayoutConfig> scaled_config(const ModelGeometry& model, const ScaledShape& shape);

}  // namespace towpath::traces
