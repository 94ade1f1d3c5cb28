#include <utility>

#include <towpath/core/text.h>
#include <towpath/standard/connector_words.h>

namespace towpath::standard {

Status apply(const KvbmSettings& settings, ConnectorNodeOptions& options) {
  TOWPATH_TRY(const std::uint64_t block_bytes, kept_config(options).block_bytes());
  TOWPATH_TRY(KvbmSettings::Shape shape, settings.shape(block_bytes, options.rank));
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

Status apply(const ConnectorWords& words, const Environment& environment,
             ConnectorNodeOptions& options) {
  if (words.kvbm) {
    TOWPATH_TRY(const KvbmSettings settings,
                KvbmSettings::read(environment, {.json = *words.kvbm}));
    TOWPATH_TRY(apply(settings, options));
  }
  if (!words.policy.empty()) {
    TOWPATH_TRY(options.cache.policy, kv::policy_named(words.policy));
  }
  if (!words.digest.empty()) {
    TOWPATH_TRY(options.digest, kv::digest_named(words.digest));
  }
  if (words.min_accesses != 0) options.cache.admission.min_accesses = words.min_accesses;
  return {};
}

}  // namespace towpath::standard
