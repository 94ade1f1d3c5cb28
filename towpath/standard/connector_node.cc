#include <algorithm>
#include <thread>
#include <utility>

#include <towpath/kv/connector/tiered_keeper.h>
#include <towpath/layout/builder.h>
#include <towpath/standard/cache_node.h>
#include <towpath/standard/connector_node.h>

namespace towpath::standard {
namespace {

constexpr Duration kLongestDrive = std::chrono::milliseconds(250);  // what nobody wakes for

}  // namespace

ConnectorNode::ConnectorNode() = default;
ConnectorNode::~ConnectorNode() {
  if (!driver_) return;
  driver_->request_stop();
  wake();
}

const std::string& ConnectorNode::folder() const { return node_->folder(); }

bool ConnectorNode::is_inherited() const noexcept { return node_->node().agent().is_inherited(); }

Result<std::unique_ptr<ConnectorNode>> ConnectorNode::open(const ConnectorNodeOptions& options) {
  auto made = std::unique_ptr<ConnectorNode>(new ConnectorNode());
  TOWPATH_TRY(made->node_, CacheNode::open(options));
  TOWPATH_TRY(const blockcopy::LayoutHandle cache, made->register_caches(options));
  TOWPATH_TRY(auto keeper, made->node_->make_keeper());
  kv::TieredKeeper& kept = *keeper;
  made->keeper_ = &kept;
  TOWPATH_TRY(made->worker_, kv::ConnectorWorker::make({.manager = &made->node_->manager(),
                                                        .rank = options.rank,
                                                        .clock = &made->node_->clock(),
                                                        .driven = options.driven},
                                                       cache, std::move(keeper)));
  if (made->node_->has_peers()) TOWPATH_TRY(made->node_->meet_peers(kept));
  if (made->node_->has_peers() && options.background) {
    TOWPATH_TRY(made->server_, made->node_->start_serving(
                                   "kv-peers", [node = made.get()] { return node->serve(); }));
  }
  if (options.driven) TOWPATH_TRY(made->start_driving());
  return made;
}

Result<blockcopy::LayoutHandle> ConnectorNode::register_caches(
    const ConnectorNodeOptions& options) {
  memory::Registrar& registrar = node_->manager().registrar();
  std::vector<memory::SharedRegion> regions;
  for (const memory::SharedRegion& region : options.caches) {
    TOWPATH_TRY(regions.emplace_back(), layout::register_region(region, registrar));
  }
  TOWPATH_TRY(layout::PhysicalLayout cache, layout::build_layout({.registrar = &registrar,
                                                                  .config = options.config,
                                                                  .kind = options.kind,
                                                                  .axes = options.axes,
                                                                  .memory = std::move(regions)}));
  return node_->manager().register_layout(
      std::move(cache),
      {.tier = "engine", .first_layer = options.first_layer, .first_head = options.first_head});
}

// Driving ----------------------------------------------------------------------------------------

Status ConnectorNode::start_driving() {
  TOWPATH_TRY(driver_, run::Worker::start("kv-worker", [this](const run::StopToken& stop) {
                while (!stop.stop_requested()) {
                  if (!drive(kLongestDrive)) continue;
                  const run::MutexLock lock(wake_mutex_);
                  has_news_.store(true, std::memory_order_release);
                  news_came_.wake_all();
                }
              }));
  return {};
}

/// Until something has come of it, or so long. It sleeps while nothing is under way, until wake().
/// True: there is news that nobody knows of.
bool ConnectorNode::drive(Duration most) {
  constexpr Duration kShort = std::chrono::microseconds(200);  // what comes has no descriptor
  const run::Deadline deadline = run::Deadline::after(node_->clock(), most);
  for (bool was_woken = false;;) {
    bool more = false, is_idle = false, is_awaited = false, is_news = false;
    {
      const run::MutexLock lock(mutex_);
      more = worker_->progress();
      is_idle = worker_->is_idle();
      is_awaited = worker_->has_news() && !has_news();
      is_news = is_awaited || (keeper_->has_news() && !has_news());
    }
    const Duration left = deadline.remaining(node_->clock());
    // What the keeper reports of blocks can wait until all that moves now has moved.
    if (is_awaited || (is_news && !more) || left == Duration::zero()) return is_news;
    if (was_woken && is_idle) return false;
    was_woken = !more && nap(is_idle ? left : std::min(left, kShort));
    while (callers_.load(std::memory_order_relaxed) > 0) std::this_thread::yield();
  }
}

ConnectorNode::News ConnectorNode::news() {
  has_news_.store(false, std::memory_order_relaxed);  // what comes from now on shows it again
  return {.finished = worker_->finished_so_far(),
          .failed_blocks = worker_->take_failed_blocks(),
          .report = worker_->report_so_far()};
}

std::optional<ConnectorNode::News> ConnectorNode::take_news(bool waits) {
  if (waits) {
    const Turn turn(*this);
    return news();
  }
  if (!mutex_.try_lock()) return std::nullopt;
  const run::HeldLock lock(mutex_);
  return news();
}

void ConnectorNode::wait_for_news(Duration most) {
  const run::MutexLock lock(wake_mutex_);
  if (!has_news()) (void)news_came_.wait_for(wake_mutex_, most);
}

/// True: somebody woke it.
bool ConnectorNode::nap(Duration most) {
  const run::MutexLock lock(wake_mutex_);
  if (!is_woken_) (void)woken_.wait_for(wake_mutex_, most);
  return std::exchange(is_woken_, false);
}

void ConnectorNode::wake() {
  const run::MutexLock lock(wake_mutex_);
  is_woken_ = true;
  woken_.wake_one();
}

// Serving ----------------------------------------------------------------------------------------

bool ConnectorNode::serve() {
  const Turn turn(*this);
  return keeper_->progress();
}

kv::KeeperFigures ConnectorNode::kept() const {
  const Turn turn(*this);
  return keeper_->figures();
}

kv::PeerFigures ConnectorNode::granting() const {
  const Turn turn(*this);
  return keeper_->granting();
}

}  // namespace towpath::standard
