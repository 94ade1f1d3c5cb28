// What a replay is asked to do. Both processes are given the same.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/kv/eviction/policy.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/layout/layout_config.h>
#include <towpath/layout/strides.h>
#include <towpath/standard/object_place.h>
#include <towpath/standard/settings.h>

#include "tools/replay/mistake.h"
#include "tools/replay/place.h"
#include "tools/traces/trace_format.h"
#include "tools/traces/trace_generator.h"

namespace towpath::tools::replay {

struct Options {
  std::string trace;                          ///< a file; empty: one is generated
  std::optional<traces::TraceFormat> format;  ///< of the trace; none: its first line shows
  traces::GeneratorOptions generator;
  std::uint64_t limit = 0;  ///< requests at most; 0: all
  double speed = 0;         ///< times that of the trace; 0: as fast as it goes

  std::string model = "llama-3.1-8b";
  std::uint64_t scale = 1024;
  std::uint64_t tokens_per_block = 512;
  std::string decode_layout = "layer_separate_block_second";

  std::uint64_t prefills = 1;    ///< processes that make and keep blocks
  std::uint64_t decodes = 1;     ///< processes that pull them
  std::uint64_t worker = 0;      ///< which of them this process is
  std::uint64_t kill_after = 0;  ///< requests, then the last prefill is killed; 0: nobody is

  std::uint64_t host_blocks = 1024;             ///< prefill's pool
  std::uint64_t disk_blocks = 32768;            ///< its disk tier; 0: objects only
  std::uint64_t decode_blocks = 1024;           ///< decode's pool
  kv::PolicyKind policy = kv::PolicyKind::lru;  ///< of both tiers of prefill
  bool all_policies = false;                    ///< compare them all instead, without processes
  std::vector<std::uint32_t> capacities{500, 1000, 2000, 5000, 10000, 20000, 50000};  ///< for that
  kv::TieredCacheOptions tiers;   ///< of prefill, where they survive; the policy is above
  std::string store_directory;    ///< of a disk tier that survives; empty: they go with it
  std::uint64_t store_bytes = 0;  ///< its size
  std::optional<standard::ObjectPlace> objects;  ///< of a tier in a store; none: there is no such
  bool peers = false;                            ///< blocks are leased from other prefills
  std::vector<standard::Remark> remarks;  ///< on variables that the tiers were to be read from
  std::uint64_t in_flight = 4;            ///< requests at a time
  std::string directory = "/var/tmp";     ///< of a disk tier that goes with the replay
  bool direct = true;                     ///< past the page cache, where the file system can

  Duration timeout =
      std::chrono::seconds(30);  ///< of each transfer, and of each wait for the other side
  Mistake inject = Mistake::none;
  double faults = 0;            ///< random faults: on this share of the occasions
  std::string json;             ///< a file, or "-"; empty: none
  std::string report;           ///< a file for the page; empty: none
  bool progress = true;         ///< a live line on standard error
  std::string rendezvous;       ///< a URL (standard/rendezvous_url.h)
  std::string run;              ///< the common name of the two there
  std::string backend = "shm";  ///< over which decode pulls
};

/// The geometry of a pool of `blocks`: the model's, scaled. Errors: not_found (the model),
/// invalid_argument (the scale, or a number that makes no sense).
Result<layout::LayoutConfig> pool_config(const Options& options, std::uint64_t blocks);

/// Below the directory: in it lies what prefills keep on disk that nobody named a place for. The
/// last to end removes it, so that nothing is left when either side is killed.
std::string run_folder(const Options& options);
/// In it, that of this process.
std::string own_folder(const Options& options);

/// Whether prefill has this tier; it always has some misses.
bool has(const Options& options, Place place);
/// Blocks that a tier has room for; 0: there is none.
std::uint64_t blocks_of(const Options& options, Place tier, std::uint64_t block_bytes);

/// "host=BLOCKS,disk=PATH:SIZE,object=PLACE,peers": tiers below the host's, one or more; what disk
/// and object hold survives. "kvbm": what DYN_KVBM_* say of them. The model and its scale are
/// known. Errors: invalid_argument.
Status read_tiers(const std::string& text, Options& options);

/// Errors: invalid_argument, with the names that there are.
Result<layout::LayoutKind> layout_kind_named(const std::string& name);

}  // namespace towpath::tools::replay
