#include "tools/replay/options.h"

#include <towpath/core/text.h>
#include <towpath/kv/model.h>

namespace towpath::tools::replay {
namespace {

// Blocks begin at pages, so that they can go to and from disk past the page cache.
constexpr std::uint64_t kBlockAlignment = 4096;

}  // namespace

Result<layout::LayoutConfig> pool_config(const Options& options, std::uint64_t blocks) {
  TOWPATH_TRY(const kv::ModelGeometry model, kv::model_named(options.model));
  TOWPATH_TRY(layout::LayoutConfig config,
              kv::scaled_config(model, {options.scale, blocks, options.tokens_per_block}));
  config.alignment = kBlockAlignment;
  return config;
}

Result<layout::LayoutKind> layout_kind_named(const std::string& name) {
  for (const auto kind :
       {layout::LayoutKind::fully_contiguous, layout::LayoutKind::layer_separate_block_first,
        layout::LayoutKind::layer_separate_block_second, layout::LayoutKind::block_separate}) {
    if (name == name_of(kind)) return kind;
  }
  return error(Code::invalid_argument, cat("no layout is called '", printable(name), "'"),
               "use fully_contiguous, layer_separate_block_first, layer_separate_block_second or "
               "block_separate");
}

}  // namespace towpath::tools::replay
