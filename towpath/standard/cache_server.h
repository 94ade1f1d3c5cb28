// CacheServer: one process of a host keeps the KV blocks of all its engines, in its memory and in
// the files and objects below it. Engines come and go, and are killed; what they kept stays.
//
//   engine: ConnectorNodeOptions{.server = "unix:/run/towpath/serve"}
//     | leaves its catalogue there: the shape of its blocks, and which it has
//     v
//   [ Unix socket ] --> served cache of that shape, made when the first engine of it comes
//                          | leases what the engine has, proves it, keeps it      (BlockCollector)
//                          ' grants what it has to every engine of the shape      (BlockLessor)
//
// No block goes by the socket: both sides copy between their own memory and that of the other,
// which is mapped, or read by the kernel. Only processes of the server's user, and root, are heard.
// Ranks of unlike shares have caches of their own; all have the same part of the memory, the files
// and the objects. A server that dies costs misses; engines find the next one at the same socket.
// What a cache has in files may take long to look through: it is opened aside, and others are
// served meanwhile. Thread: any; each served cache has a thread, one that is opened, and the
// socket.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/kv/figures.h>
#include <towpath/run/mutex.h>
#include <towpath/standard/connector_options.h>
#include <towpath/standard/telemetry.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/file.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::kv {
struct CacheShare;
}
namespace towpath::rendezvous {
class HostedRendezvous;
struct Change;
struct MetadataName;
}  // namespace towpath::rendezvous
namespace towpath::run {
class Poller;
class StopToken;
class Waker;
class Worker;
}  // namespace towpath::run

namespace towpath::standard {

struct Settings;
class StderrSink;

/// Of the memory, what a block needs beside its bytes: its slot, its places in the tables, its name
/// at the peers. Smaller blocks are refused.
inline constexpr std::uint64_t kBytesPerBlockKnown = 256;

struct CacheServerOptions {
  std::string address;             ///< "unix:/path" or "unix:@name"
  std::uint64_t memory_bytes = 0;  ///< of all caches together, with what is known of each block
  /// Unlike caches (a model, times its ranks of unlike heads) that share all this evenly. One that
  /// is without an engine makes place for another; its files stay.
  std::size_t caches = 1;
  /// Of all caches, each in a folder of its own; or a drive, or a file that is used as one
  /// (kv/disk/drive_files.h). Empty: no files.
  std::string directory;
  std::shared_ptr<sys::FileSystem> files;  ///< that `directory` is in; null: kv::store_files()
  std::uint64_t disk_bytes = 16 * kGiB;
  bool direct = false;
  std::optional<ObjectPlace> objects{};
  kv::TieredCacheOptions cache{};
  Duration forget_after = std::chrono::seconds(30);  ///< an engine that is lost
};

/// A socket in a directory that only this user can enter, which is made (docs/security.md). Errors:
/// denied (another user's, or open to others), those of the file system.
Result<std::string> own_server_address();

/// What is served to the engines of one shape.
struct ServedFigures {
  std::string name;        ///< as folders and catalogues have it
  std::string name_space;  ///< as the engines reported it
  std::uint64_t block_bytes = 0;
  std::uint64_t host_blocks = 0;  ///< that there is memory for
  std::uint64_t engines = 0;      ///< that are there now
  kv::CollectorFigures collected;
  kv::KeeperFigures kept;
  kv::PeerFigures peers;
};

class CacheServer {
 public:
  /// Errors: invalid_argument (options), already_exists (another server, or no socket, is at the
  /// address), denied, those of listening there, of a directory that takes no files, and of
  /// configure().
  static Result<std::unique_ptr<CacheServer>> open(const CacheServerOptions& options);
  /// What is in memory alone goes to the files and objects.
  ~CacheServer();

  std::vector<ServedFigures> figures() const TOWPATH_EXCLUDES(mutex_);
  /// Of all caches, each an agent; empty unless the configuration switches telemetry on.
  const telemetry::Metrics& metrics() const noexcept { return metrics_; }
  /// Where Prometheus finds them; empty: they are not published.
  std::string prometheus_url() const { return endpoint_ ? endpoint_->url() : std::string(); }
  struct Refusals {
    std::uint64_t count = 0;
    Status last;  ///< of an engine that has no cache here
  };
  Refusals refusals() const TOWPATH_EXCLUDES(mutex_);

 private:
  class ServedCache;
  struct Opening;

  CacheServer(const CacheServerOptions& options, const Settings& settings);
  void serve_metrics(const PrometheusOptions& options);
  void listen(const run::StopToken& stop);
  void hear(const rendezvous::Change& change) TOWPATH_EXCLUDES(mutex_);
  void refuse(const rendezvous::MetadataName& name, const std::string& subject, Status why)
      TOWPATH_EXCLUDES(mutex_);
  Status learn(const std::string& cache, const std::string& engine, ConstByteSpan catalogue)
      TOWPATH_EXCLUDES(mutex_);
  Result<std::uint64_t> blocks_of(const kv::CacheShare& share) const;
  Result<ConnectorNodeOptions> options_for(const kv::CacheShare& share) const;
  Status start_opening(const std::string& name, const ConnectorNodeOptions& options)
      TOWPATH_REQUIRES(mutex_);
  void take_opened() TOWPATH_EXCLUDES(mutex_);
  Status add(const std::string& name, std::unique_ptr<ServedCache> opened) TOWPATH_EXCLUDES(mutex_);
  Result<std::optional<std::string>> find_place() const TOWPATH_REQUIRES(mutex_);
  void let_go(const std::string& name) TOWPATH_REQUIRES(mutex_);
  void send_off(std::unique_ptr<ServedCache> going) TOWPATH_REQUIRES(mutex_);
  void forget_lost(const std::string& name, ServedCache& cache, Duration least)
      TOWPATH_REQUIRES(mutex_);
  void forget_all_lost() TOWPATH_EXCLUDES(mutex_);

  const CacheServerOptions options_;
  std::shared_ptr<sys::FileSystem> files_;  // null: no files
  const sys::SystemClock clock_;
  const std::unique_ptr<StderrSink> sink_;
  telemetry::Metrics metrics_;
  std::unique_ptr<PrometheusEndpoint> endpoint_;
  std::unique_ptr<rendezvous::HostedRendezvous> place_;  // the listening thread's
  std::unique_ptr<run::Poller> poller_;                  // with this
  std::unique_ptr<run::Waker> waker_;                    // of it, when one has been opened
  mutable run::Mutex mutex_;
  std::map<std::string, std::unique_ptr<ServedCache>> caches_ TOWPATH_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Opening>> opening_ TOWPATH_GUARDED_BY(mutex_);
  std::unique_ptr<run::Worker> leaving_ TOWPATH_GUARDED_BY(mutex_);  // the last cache that went
  std::atomic<bool> is_one_leaving_ = false;
  bool is_closing_ TOWPATH_GUARDED_BY(mutex_) = false;
  Refusals refusals_ TOWPATH_GUARDED_BY(mutex_);
  std::unique_ptr<run::Worker> listener_;  // dies first
};

}  // namespace towpath::standard
