#include "tools/traces/model.h"

#include <algorithm>
#include <array>

#include <towpath/core/format.h>

namespace towpath::traces {
namespace {

constexpr std::array kModels = {
    ModelGeometry{"llama-3.1-8b", 32, 2, 8, 128, 2},
    ModelGeometry{"llama-3.1-70b", 80, 2, 8, 128, 2},
    ModelGeometry{"llama-3.1-405b", 126, 2, 8, 128, 2},
    ModelGeometry{"qwen3-8b", 36, 2, 8, 128, 2},
    ModelGeometry{"qwen3-32b", 64, 2, 8, 128, 2},
    ModelGeometry{"qwen3-235b-a22b", 94, 2, 4, 128, 2},
    ModelGeometry{"gpt-oss-20b", 24, 2, 8, 64, 2},
    ModelGeometry{"gpt-oss-120b", 36, 2, 8, 64, 2},
    ModelGeometry{"gemma-3-4b", 34, 2, 4, 256, 2},
    ModelGeometry{"gemma-3-12b", 48, 2, 8, 256, 2},
    ModelGeometry{"gemma-3-27b", 62, 2, 16, 128, 2},
    ModelGeometry{"phi-4", 40, 2, 10, 128, 2},
    ModelGeometry{"deepseek-v3", 61, 1, 1, 576, 2},
};

}  // namespace

std::span<const ModelGeometry> all_models() noexcept { return kModels; }

Result<ModelGeometry> model_named(std::string_view name) {
  const std::string word = lower(name);
  std::string names;
  for (const ModelGeometry& model : kModels) {
    if (word == model.name) return model;
    names.append(names.empty() ? "" : ", ").append(model.name);
  }
  return error(Code::not_found, cat("no model '", printable(name), "' is known"),
               cat("use one of: ", names));
}

Result<layout::LayoutConfig> scaled_config(const ModelGeometry& model, const ScaledShape& shape) {
  const std::uint64_t elements = model.kv_heads * model.head_dim;
  if (shape.scale == 0 || shape.scale > elements) {
    return error(Code::invalid_argument,
                 cat("a scale of ", shape.scale, " leaves no element of the ", elements,
                     " that a token of ", model.name, " has per layer"),
                 cat("use 1 to ", elements));
  }
  layout::LayoutConfig config;
  config.num_blocks = shape.num_blocks;
  config.num_layers = model.num_layers;
  config.outer_dim = model.outer_dim;
  config.page_size = shape.tokens_per_block;
  config.inner_dim = elements / shape.scale;
  config.dtype_width_bytes = model.dtype_width_bytes;
  TOWPATH_TRY(config.validate());
  return config;
}

}  // namespace towpath::traces
