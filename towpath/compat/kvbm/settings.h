// Settings: what KVBM's users say, in DYN_KVBM_* and KVBM_* variables, TOML and JSON, as
// options of a TieredCache and its disk, and of a ConnectorNode. By variable, and by path (KVBM_*
// is the path in capitals):
//
//   DYN_KVBM_CPU_CACHE_GB                          the host's pool, in 10^9 bytes; or in blocks:
//   DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS         this wins
//   DYN_KVBM_DISK_CACHE_GB, DYN_KVBM_DISK_CACHE_OVERRIDE_NUM_BLOCKS, DYN_KVBM_DISK_CACHE_DIR
//   DYN_KVBM_DISABLE_DISK_OFFLOAD_FILTER   1: blocks go to disk at their first access, not second
//   DYN_KVBM_MAX_TRANSFER_BATCH_SIZE, DYN_KVBM_TRANSFER_BATCH_SIZE   blocks
//   DYN_KVBM_HOST_OFFLOAD_PREFIX_MIN_PRIORITY      0 to 255
//   DYN_KVBM_OBJECT_ENABLED, DYN_KVBM_OBJECT_NUM_BLOCKS   a tier of objects, and its bound
//   DYN_KVBM_OBJECT_BUCKET (with {worker_id}), _ENDPOINT, _REGION, _ACCESS_KEY, _SECRET_KEY
//
// Each of KVBM's other names is remarked on, with what takes its place here; so are names that are
// not KVBM's, and values that cannot be read. Nothing is silent, nothing fatal. Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <towpath/kv/disk/block_store.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/standard/object_place.h>
#include <towpath/standard/settings.h>

namespace towpath::standard {
struct ConnectorNodeOptions;
}

namespace towpath::kvbm {

inline constexpr std::string_view kPrefix = "DYN_KVBM_";

/// How large a tier is: as it was said. 0 is nothing said, as to KVBM.
struct Size {
  std::optional<std::uint64_t> bytes;
  std::optional<std::uint64_t> blocks;  ///< wins

  /// Nothing where nothing was said. `block_bytes` is not 0.
  std::optional<std::uint64_t> blocks_of(std::uint64_t block_bytes) const;
};

/// A tier of objects, as it was said.
struct Objects {
  bool enabled = false;
  std::uint64_t blocks = 0;  ///< 0: not said
  std::string bucket = "kvbm-blocks";
  backend::Params params;  ///< of the backend `object`
};

inline constexpr const char* kSystemFile = "/opt/dynamo/etc/kvbm.toml";

struct Sources {
  std::string system_file = kSystemFile;  ///< may not be there
  std::string json;                       ///< vLLM's `kv_connector_extra_config`; empty: none
};

struct Settings {
  Objects objects;
  Size host;
  Size disk;
  std::string disk_directory;  ///< empty: not said
  bool second_sight = true;    ///< as KVBM's disk filter, which is on unless it is disabled
  std::optional<std::uint64_t> batch_blocks;
  std::uint8_t min_priority = 0;

  std::vector<standard::Remark> remarks;  ///< by variable, or by place and path

  /// Of DYN_KVBM_* and KVBM_* in it, and no file; the rest is others' business.
  static Settings from(const standard::Environment& environment);
  /// These and the files, in KVBM's order: each of these wins over those before it.
  ///
  ///   DYN_KVBM_*   `system_file`   the file that KVBM_CONFIG_PATH names   KVBM_*   `json`
  ///
  /// In files and JSON "default" and "leader", where a section is named so, are for this process;
  /// what is said for "worker" is not: the leader's say how large tiers are.
  /// Errors: those of file.h; not_found (the file that is named), denied, io_error, corrupt (a
  /// file too long).
  static Result<Settings> read(const standard::Environment& environment, const Sources& sources);

  /// All that a TieredCache of such blocks is made with. Errors: invalid_argument (no size of the
  /// host's pool, or none that holds a block; a disk without a directory; objects without a
  /// number), each by its variable; what was not understood is the cause.
  struct Shape {
    std::uint64_t host_blocks = 0;
    kv::TieredCacheOptions cache;
    std::optional<kv::BlockStoreOptions> disk;     ///< as disk_options()
    std::optional<standard::ObjectPlace> objects;  ///< as object_place()
  };
  Result<Shape> shape(std::uint64_t block_bytes, std::uint64_t worker = 0) const;

  kv::TieredCacheOptions cache_options() const;
  /// Nothing unless a size of the disk was said. The caller adds incarnation, block directory
  /// and tier, and a directory where none was said.
  std::optional<kv::BlockStoreOptions> disk_options(std::uint64_t block_bytes) const;
  /// Nothing unless objects were enabled. What was not said, the environment's AWS_* say.
  std::optional<standard::ObjectPlace> object_place(std::uint64_t block_bytes,
                                                    std::uint64_t worker) const;
};

/// All that are understood, as a connector that took KVBM's settings would have them; a `source` is
/// a variable, or a file, its line and the path; what could not be read gives nothing. Errors:
/// those of Settings::read().
Result<std::vector<standard::GivenSetting>> given_settings(const standard::Environment& environment,
                                                           const Sources& sources = {});

/// As those of a ConnectorNode. Tiers that the settings do not name stay as they were in `options`,
/// which say the shape of the engine's cache. Errors: those of Settings::shape().
Status apply(const Settings& settings, standard::ConnectorNodeOptions& options);

/// The same of KVBM's variables and files, and of `json` over those, which vLLM has as
/// `kv_connector_extra_config`; empty: of none. Errors: those of Settings::read(), too.
Status apply(const std::string& json, const standard::Environment& environment,
             standard::ConnectorNodeOptions& options);

}  // namespace towpath::kvbm
