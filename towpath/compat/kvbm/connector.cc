#include <utility>

#include <towpath/compat/kvbm/settings.h>
#include <towpath/standard/connector_options.h>

namespace towpath::kvbm {

Status apply(const Settings& settings, standard::ConnectorNodeOptions& options) {
  TOWPATH_TRY(const std::uint64_t block_bytes, kept_config(options).block_bytes());
  TOWPATH_TRY(Settings::Shape shape, settings.shape(block_bytes, options.rank));
  options.host_blocks = shape.host_blocks;
  options.cache = shape.cache;
  options.remarks = settings.remarks;
  if (shape.disk) {
    options.directory = shape.disk->directory;
    options.disk_bytes = shape.disk->capacity_bytes;
  }
  if (shape.objects) options.objects = std::move(shape.objects);
  return {};
}

Status apply(const std::string& json, const standard::Environment& environment,
             standard::ConnectorNodeOptions& options) {
  TOWPATH_TRY(const Settings settings, Settings::read(environment, {.json = json}));
  return apply(settings, options);
}

}  // namespace towpath::kvbm
