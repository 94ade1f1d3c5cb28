// What a connector's node is made of, and what a served cache is made of: the shape of the blocks,
// and where they are kept. Thread: values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <towpath/kv/digest.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/layout/layout_config.h>
#include <towpath/memory/region.h>
#include <towpath/standard/gpus.h>
#include <towpath/standard/object_place.h>
#include <towpath/standard/settings.h>
#include <towpath/sys/file.h>

namespace towpath::standard {

/// Other workers whose blocks are leased, and who lease from here.
struct ConnectorPeers {
  std::string rendezvous;  ///< where they meet, as rendezvous_url.h says; empty: there are none
  std::string name;        ///< of this worker there, not any other's; empty: one of chance
  /// To ask for, where the rendezvous notifies nobody of changes: all but etcd.
  std::vector<std::string> others;
  std::vector<std::string> backends = {"shm"};  ///< "tcp" too for other machines
  Duration timeout = std::chrono::seconds(2);   ///< with a peer, for each step of a lease
};

struct ConnectorNodeOptions {
  /// The model, its weights' version, the type of its elements: what makes bytes of one length
  /// another cache's.
  std::string name_space;
  layout::LayoutConfig config;  ///< of the engine's cache, of this rank
  layout::LayoutKind kind = layout::LayoutKind::layer_separate_block_second;
  /// Of a strided cache: where its elements lie, from the start of each region on.
  layout::Axes axes{};
  /// The engine's memory, as many as the kind wants: one, or one per layer.
  std::vector<memory::SharedRegion> caches;
  /// How it comes to the devices that `caches` lie on; asked only where some do.
  device::DriverSource devices = gpus();
  std::uint32_t rank = 0;
  std::uint64_t first_layer = 0;  ///< of the model that this rank has
  std::uint64_t first_head = 0;
  std::uint64_t host_blocks = 1024;  ///< kept in memory
  /// Made when it is not there; or a drive, or a file that is used as one (kv/disk/drive_files.h).
  /// Empty: no files.
  std::string directory;
  std::shared_ptr<sys::FileSystem> files;  ///< that `directory` is in; null: kv::store_files()
  std::uint64_t disk_bytes = 16 * kGiB;
  /// Files are read and written past the page cache (O_DIRECT); where `directory` or the size of a
  /// block does not allow it, through it, and a warning says why.
  bool direct = false;
  std::optional<ObjectPlace> objects{};  ///< none: no objects
  /// The eviction policy, and which blocks are demoted to files and objects.
  kv::TieredCacheOptions cache{};
  kv::DigestAlgorithm digest = kv::DigestAlgorithm::xxh3_64;
  ConnectorPeers peers;
  /// Where a CacheServer of this host is met, "unix:/path": it takes what is kept here, and gives
  /// it to all that have the same cache. `host_blocks` are on their way to it or from it then;
  /// `peers` are its affair. Empty: there is none.
  std::string server;
  /// A thread reads, writes and syncs what lies below memory, so that the engine's never does; with
  /// peers another serves them, in turns with the engine. False: the worker's progress() does all
  /// of that, and an engine that is busy elsewhere for longer than its peers' timeout calls it in
  /// between.
  bool background = true;
  /// A thread of the node's makes the worker's progress, so that the engine's calls only order and
  /// take (take_news()). It asks nothing of anybody: an engine in Python would keep a thread of
  /// Python's from its interpreter for seconds.
  bool driven = false;
  std::vector<Remark> remarks{};  ///< on where these options come from: warned of at the start
};

/// How blocks are kept, whatever the engine's own arrangement.
layout::LayoutConfig kept_config(const ConnectorNodeOptions& options);
}  // namespace towpath::standard
