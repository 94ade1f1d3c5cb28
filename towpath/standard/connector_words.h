// ConnectorWords: how a connector keeps blocks, in words: for doors whose options are text (C,
// Python), and for those who have KVBM's settings.
//
//   TOWPATH_TRY(apply({.policy = "s3-fifo", .kvbm = ""}, read_environment(), options));
//
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <towpath/standard/connector_node.h>
#include <towpath/standard/kvbm_settings.h>

namespace towpath::standard {

/// What is not said stays as it was.
struct ConnectorWords {
  std::string policy{};            ///< kv/eviction/policy.h has the names
  std::string digest{};            ///< "xxh3_64", "crc32c"
  std::uint64_t min_accesses = 0;  ///< of a block, before it is demoted to files and objects
  /// KVBM's settings are read, and say what they do of all tiers: "" its variables and files, else
  /// this JSON over those, which vLLM has as `kv_connector_extra_config`. Nothing: they are not.
  std::optional<std::string> kvbm{};
};

/// Of an engine's cache whose shape `options` report. Errors: invalid_argument (no such policy,
/// digest), those of KvbmSettings::read() and shape().
Status apply(const ConnectorWords& words, const Environment& environment,
             ConnectorNodeOptions& options);

/// The same of settings that were read. Tiers that they do not name stay as they were.
Status apply(const KvbmSettings& settings, ConnectorNodeOptions& options);

}  // namespace towpath::standard
