#include "tools/replay/options.h"

#include <algorithm>

#include <unistd.h>

#include <towpath/compat/kvbm/settings.h>
#include <towpath/core/format.h>
#include <towpath/kv/digest.h>
#include <towpath/kv/disk/segment_format.h>
#include <towpath/kv/tiers/object_tier.h>

#include "tools/traces/model.h"

namespace towpath::tools::replay {
namespace {

// Blocks begin at pages, so that they can go to and from disk past the page cache.
constexpr std::uint64_t kBlockAlignment = 4096;

constexpr const char* kWriteSo =
    "write host=1024,disk=/var/tmp/kv:10GiB,object=s3://bucket/prefix:100GiB,peers (one or more of "
    "those below host), or kvbm";

Status take_part(const std::string& part, Options& options) {
  const std::size_t equals = part.find('=');
  const std::string name = part.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
  const std::size_t colon = value.rfind(':');
  if (name == "object") {
    TOWPATH_TRY(options.objects, standard::ObjectPlace::parse(value));
    return {};
  }
  if (part == "peers") {
    options.peers = true;
    return {};
  }
  if (name == "host") {
    TOWPATH_TRY(options.host_blocks, parse_bytes(value));
    return {};
  }
  if (name != "disk" || colon == std::string::npos || colon == 0)
    return error(Code::invalid_argument, cat("'", printable(part), "' is no tier and its size"),
                 kWriteSo);
  options.store_directory = value.substr(0, colon);
  TOWPATH_TRY(options.store_bytes, parse_bytes(value.substr(colon + 1)));
  return {};
}

Status take_list(const std::string& text, Options& options) {
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    TOWPATH_TRY(take_part(text.substr(at, end - at), options));
    at = end + 1;
  }
  return {};
}

Status take_kvbm(std::uint64_t block_bytes, Options& options) {
  TOWPATH_TRY(const auto reported, kvbm::Settings::read(standard::read_environment(), {}));
  options.remarks = reported.remarks;
  TOWPATH_TRY(const auto shape, reported.shape(block_bytes, options.worker));
  options.host_blocks = shape.host_blocks;
  options.tiers = shape.cache;
  options.objects = shape.objects;
  if (!shape.disk) return {};
  options.store_directory = shape.disk->directory;
  options.store_bytes = shape.disk->capacity_bytes;
  return {};
}

}  // namespace

Result<layout::LayoutConfig> pool_config(const Options& options, std::uint64_t blocks) {
  TOWPATH_TRY(const traces::ModelGeometry model, traces::model_named(options.model));
  TOWPATH_TRY(layout::LayoutConfig config,
              traces::scaled_config(model, {options.scale, blocks, options.tokens_per_block}));
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
  const bool has_disk = !options.store_directory.empty();
  if ((!has_disk && !options.objects && !options.peers) || has_disk != (options.store_bytes > 0) ||
      options.host_blocks == 0)
    return error(Code::invalid_argument, cat("'", printable(text), "' leaves a tier without room"),
                 kWriteSo);
  if (options.peers && options.prefills < 2)
    return error(Code::invalid_argument, "--tiers peers needs another prefill, to lease from",
                 "add --prefill 2");
  options.disk_blocks = options.store_bytes / kv::room_of({.length = block_bytes});
  return {};
}

// No name that a user gives to a run is part of a path that is removed.
std::string run_folder(const Options& options) {
  return cat(options.directory, "/towpath-replay-",
             hex(kv::digest_of(as_bytes(options.run), 0).value).substr(2));
}

std::string own_folder(const Options& options) {
  return cat(run_folder(options), "/worker-", options.worker, "-", ::getpid());
}

bool has(const Options& options, Place place) {
  switch (place) {
    case Place::disk: return options.disk_blocks > 0;
    case Place::object: return options.objects.has_value();
    case Place::peers: return options.peers;
    case Place::host:
    case Place::miss: break;
  }
  return true;
}

std::uint64_t blocks_of(const Options& options, Place tier, std::uint64_t block_bytes) {
  switch (tier) {
    case Place::host: return options.host_blocks;
    case Place::disk: return options.disk_blocks;
    case Place::object:
      return options.objects ? options.objects->bound_bytes / kv::object_bytes_of(block_bytes) : 0;
    case Place::peers:
    case Place::miss: break;
  }
  return 0;
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
