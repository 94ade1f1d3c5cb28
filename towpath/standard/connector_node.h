// ConnectorNode: the worker's half of a KV connector with everything that it is given: an agent, a
// transfer manager, host memory, tiers of files and of objects, and the engine's cache registered.
//
//   ConnectorNodeOptions options{.name_space = "llama-3-8b bf16", .config = config, .kind = kind,
//                                .caches = regions, .directory = "/nvme/kv"};
//   TOWPATH_TRY(options.objects, ObjectPlace::parse("s3://cold/kv:1TiB"));  // below the files
//   TOWPATH_TRY(auto node, standard::ConnectorNode::open(options));
//   node->call([&](kv::ConnectorWorker& worker) { return worker.start_step(orders); });
//
// Files and objects of unlike caches lie apart (cache_node.h). A
// worker has its place of objects for itself: replicas of one rank name places of their own. Peers
// are served by a thread, or, without one (`background`), while somebody calls in here. Thread:
// any; one at a time is at work.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <towpath/kv/connector/worker.h>
#include <towpath/kv/figures.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/run/mutex.h>
#include <towpath/standard/connector_options.h>

namespace towpath::kv {
class TieredKeeper;
}
namespace towpath::run {
class Worker;
}

namespace towpath::standard {

class CacheNode;

class ConnectorNode {
 public:
  /// Errors: invalid_argument (shapes and regions that do not fit; the rendezvous), exhausted, and
  /// those of opening the caches' devices, the folder, the backends and the rendezvous, and of
  /// registering memory.
  static Result<std::unique_ptr<ConnectorNode>> open(const ConnectorNodeOptions& options);
  ~ConnectorNode();

  /// What `work(worker)` returns, after what was ordered before. Nobody else works meanwhile, the
  /// serving thread neither.
  template <class Work>
  auto call(Work&& work) TOWPATH_EXCLUDES(mutex_) {
    const run::FairLock lock(mutex_);
    take_orders();
    const Woken woken(*this);
    return std::forward<Work>(work)(*worker_);
  }

  // Where the node is driven, an engine that waits for nothing leaves word, and the driver works.
  // None of these waits for the worker: their cost is a lock held for moments. What came is
  // then taken by take_news() alone.

  /// A step's orders, as kv::encode() makes them: ConnectorWorker::start_step(). They may not load
  /// within the step. What is wrong with them, take_news() says.
  void order(Bytes orders) TOWPATH_EXCLUDES(wake_mutex_);
  /// The step that was ordered last has been computed: ConnectorWorker::wait_for_save(), and what
  /// it saves is copied behind the step.
  void note_computed() TOWPATH_EXCLUDES(wake_mutex_);

  /// All that the worker gives an engine, at once.
  struct News {
    kv::ConnectorWorker::Finished finished;
    std::vector<std::uint64_t> failed_blocks;
    std::vector<Bytes> reports;  ///< for ConnectorScheduler::update(), one after the other
  };
  /// There may be some. Cost: one load.
  bool has_news() const noexcept { return has_news_.load(std::memory_order_acquire); }
  /// What the driver has gathered. Errors: corrupt (orders), not_ready (a step was ordered before
  /// the last one was computed).
  Result<News> take_news() TOWPATH_EXCLUDES(wake_mutex_);
  /// Has it gathered, and waits for the worker: what came up to now is in it.
  void gather() TOWPATH_EXCLUDES(mutex_);
  /// Sleeps until has_news(), or so long; it may return sooner.
  void wait_for_news(Duration most) TOWPATH_EXCLUDES(wake_mutex_);

  /// Whether this process is a forked child of the one that opened it: then it is not to be
  /// called, and not to be destroyed.
  bool is_inherited() const noexcept;
  struct Figures {
    kv::ConnectorWorker::Figures moved;
    kv::KeeperFigures kept;
    kv::PeerFigures granting;  ///< all zero without peers
  };
  Figures figures() TOWPATH_EXCLUDES(mutex_);
  /// Those of a quarter of a second ago, or later, where the node is driven: nobody is waited for.
  std::shared_ptr<const Figures> figures_lately() TOWPATH_EXCLUDES(wake_mutex_);
  /// Where this cache's files lie; empty: nowhere.
  const std::string& folder() const;

 private:
  ConnectorNode();
  Result<blockcopy::LayoutHandle> register_caches(const ConnectorNodeOptions& options);
  bool serve() TOWPATH_EXCLUDES(mutex_);
  Status start_driving();
  void drive() TOWPATH_EXCLUDES(mutex_, wake_mutex_);
  void leave(std::optional<Bytes> orders) TOWPATH_EXCLUDES(wake_mutex_);
  void take_orders() TOWPATH_REQUIRES(mutex_) TOWPATH_EXCLUDES(wake_mutex_);
  Status begin_step(const Bytes& orders) TOWPATH_REQUIRES(mutex_);
  void fail(const Status& why) TOWPATH_EXCLUDES(wake_mutex_);
  void leave_news() TOWPATH_REQUIRES(mutex_) TOWPATH_EXCLUDES(wake_mutex_);
  void leave_figures() TOWPATH_REQUIRES(mutex_) TOWPATH_EXCLUDES(wake_mutex_);
  Figures figures_now() const TOWPATH_REQUIRES(mutex_);
  void nap(Duration most) TOWPATH_EXCLUDES(wake_mutex_);
  void wake() TOWPATH_EXCLUDES(wake_mutex_);
  /// Whatever was asked of the worker, there may be something to drive.
  class Woken {
   public:
    explicit Woken(ConnectorNode& node) : node_(node) {}
    Woken(const Woken&) = delete;
    Woken& operator=(const Woken&) = delete;
    ~Woken() {
      if (node_.driver_) node_.wake();
    }

   private:
    ConnectorNode& node_;
  };

  run::FairMutex mutex_;  // the driver and the serving thread take it again and again
  std::unique_ptr<CacheNode> node_;
  kv::TieredKeeper* keeper_ TOWPATH_PT_GUARDED_BY(mutex_) = nullptr;  // the worker's
  std::unique_ptr<kv::ConnectorWorker> worker_ TOWPATH_PT_GUARDED_BY(mutex_);
  Instant left_at_ TOWPATH_GUARDED_BY(mutex_){0};  // figures, last
  run::Mutex wake_mutex_;                          // the engine's thread takes it: held for moments
  run::CondVar woken_, news_came_;
  bool is_woken_ TOWPATH_GUARDED_BY(wake_mutex_) = false;
  std::deque<std::optional<Bytes>> orders_ TOWPATH_GUARDED_BY(wake_mutex_);  // none: computed
  Status failure_ TOWPATH_GUARDED_BY(wake_mutex_);                           // of orders
  News news_ TOWPATH_GUARDED_BY(wake_mutex_);
  std::shared_ptr<const Figures> figures_ TOWPATH_GUARDED_BY(wake_mutex_) =
      std::make_shared<const Figures>();
  std::atomic<bool> has_news_{false};
  std::unique_ptr<run::Worker> driver_;
  std::unique_ptr<run::Worker> server_;  // dies first: it drives the keeper
};

}  // namespace towpath::standard
