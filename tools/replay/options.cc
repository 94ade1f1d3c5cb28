#include "tools/replay/options.h"

#include <algorithm>

#include <towpath/core/text.h>
#include <towpath/kv/disk/segment_format.h>
#include <towpath/kv/model.h>
#include <towpath/standard/kvbm_settings.h>

namespace towpath::tools::replay {
namespace {

// Blocks begin at pages, so that they can go to and from disk past the page cache.
constexpr std::uint64_t kBlockAlignment = 4096;

constexpr const char* kWriteSo = "write host=1024,disk=/var/tmp/kv:10GiB, or kvbm";

Status take_list(const std::string& text, Options& options) {
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    at = end + 1;
    const std::size_t colon = part.rfind(':');
    const bool is_disk = part.starts_with("disk=") && colon != std::string::npos && colon > 5;
    if (!is_disk && !part.starts_with("host="))
      return error(Code::invalid_argument, cat("'", printable(part), "' is no tier and its size"),
                   kWriteSo);
    TOWPATH_TRY(const std::uint64_t size, parse_bytes(part.substr(is_disk ? colon + 1 : 5)));
    if (is_disk) options.store_directory = part.substr(5, colon - 5);
    (is_disk ? options.store_bytes : options.host_blocks) = size;
  }
  return {};
}

Status take_kvbm(std::uint64_t block_bytes, Options& options) {
  const auto told = standard::KvbmSettings::from(standard::read_environment());
  options.remarks = told.remarks;
  TOWPATH_TRY(const auto shape, told.shape(block_bytes));
  options.host_blocks = shape.host_blocks;
  options.tiers = shape.cache;
  if (!shape.disk) return {};
  options.store_directory = shape.disk->directory;
  options.store_bytes = shape.disk->capacity_bytes;
  return {};
}

}  // namespace

Result<layout::LayoutConfig> pool_config(const Options& options, std::uint64_t blocks) {
  TOWPATH_TRY(const kv::ModelGeometry model, kv::model_named(options.model));
  TOWPATH_TRY(layout::LayoutConfig config,
              kv::scaled_config(model, {options.scale, blocks, options.tokens_per_block}));
  config.alignment = kBlockAlignment;
  return config;
}

Status read_tiers(const std::string& text, Options& options) {
  TOWPATH_TRY(const layout::LayoutConfig config, pool_config(options, 1));
  TOWPATH_TRY(const std::uint64_t block_bytes, config.block_bytes());
  if (text == "kvbm")
    TOWPATH_TRY(take_kvbm(block_bytes, options));
  else
    TOWPATH_TRY(take_list(text, options));
  if (options.store_directory.empty() || options.store_bytes == 0 || options.host_blocks == 0)
    return error(Code::invalid_argument, cat("'", printable(text), "' leaves a tier without room"),
                 kWriteSo);
  options.disk_blocks = options.store_bytes / kv::room_of({.length = block_bytes});
  return {};
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
