#include <algorithm>
#include <utility>

#include <towpath/kv/connector/tiered_keeper.h>
#include <towpath/layout/builder.h>
#include <towpath/run/worker.h>
#include <towpath/standard/cache_node.h>
#include <towpath/standard/connector_node.h>

namespace towpath::standard {
namespace {

constexpr Duration kIdleNap = std::chrono::milliseconds(250);  // what nobody wakes for
constexpr Duration kBusyNap = std::chrono::microseconds(200);  // what comes has no descriptor

}  // namespace

ConnectorNode::ConnectorNode() = default;
ConnectorNode::~ConnectorNode() {
  if (!driver_) return;
  driver_->request_stop();
  wake();
  driver_.reset();
  const run::FairLock lock(mutex_);
  take_orders();  // what was computed is saved
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
    TOWPATH_TRY(run::Worker server, made->node_->start_serving(
                                        "kv-peers", [node = made.get()] { return node->serve(); }));
    made->server_ = std::make_unique<run::Worker>(std::move(server));
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
  TOWPATH_TRY(run::Worker driver,
              run::Worker::start("kv-worker", [this](const run::StopToken& stop) {
                while (!stop.stop_requested()) drive();
              }));
  driver_ = std::make_unique<run::Worker>(std::move(driver));
  return {};
}

void ConnectorNode::drive() {
  bool more = false, is_idle = false;
  {
    const run::FairLock lock(mutex_);
    take_orders();
    more = worker_->progress();
    is_idle = worker_->is_idle();
    // What the keeper reports of blocks waits until all that moves now has moved, and until the
    // last that it reported was taken.
    const bool is_time = !more || node_->clock().now() - left_at_ >= kIdleNap;
    if (worker_->has_news() || (is_time && !has_news() && keeper_->has_news())) leave_news();
    if (is_time) leave_figures();
  }
  if (!more) nap(is_idle ? kIdleNap : kBusyNap);
}

void ConnectorNode::order(Bytes orders) { leave(std::move(orders)); }

void ConnectorNode::note_computed() { leave(std::nullopt); }

void ConnectorNode::leave(std::optional<Bytes> orders) {
  const run::MutexLock lock(wake_mutex_);
  orders_.push_back(std::move(orders));
  is_woken_ = true;
  woken_.wake_one();
}

void ConnectorNode::take_orders() {
  std::deque<std::optional<Bytes>> orders;
  {
    const run::MutexLock lock(wake_mutex_);
    orders.swap(orders_);
  }
  for (const std::optional<Bytes>& one : orders) {
    if (!one) {
      worker_->wait_for_save();
    } else if (const Status begun = begin_step(*one); !begun.ok()) {
      fail(begun);
    }
  }
}

void ConnectorNode::fail(const Status& why) {
  const run::MutexLock lock(wake_mutex_);
  failure_ = why;
  has_news_.store(true, std::memory_order_release);
  news_came_.wake_all();
}

Status ConnectorNode::begin_step(const Bytes& orders) {
  TOWPATH_TRY(const kv::StepOrders step, kv::decode_step_orders(orders));
  return worker_->start_step(step);
}

void ConnectorNode::leave_news() {
  kv::ConnectorWorker::Finished finished = worker_->finished_so_far();
  std::vector<std::uint64_t> failed = worker_->take_failed_blocks();
  const kv::WorkerReport report = worker_->report_so_far();
  Result<Bytes> said = report.says_nothing() ? Bytes() : kv::encode(report);
  if (!said.ok()) fail(said.status());
  const run::MutexLock lock(wake_mutex_);
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(news_.finished.sent, finished.sent);
  append(news_.finished.received, finished.received);
  append(news_.finished.failed, finished.failed);
  append(news_.failed_blocks, failed);
  if (said.ok() && !said->empty()) news_.reports.push_back(*std::move(said));
  has_news_.store(true, std::memory_order_release);
  news_came_.wake_all();
}

Result<ConnectorNode::News> ConnectorNode::take_news() {
  const run::MutexLock lock(wake_mutex_);
  if (!failure_.ok()) return std::exchange(failure_, {});  // and the news are still to be taken
  has_news_.store(false, std::memory_order_relaxed);
  return std::exchange(news_, {});
}

void ConnectorNode::gather() {
  const run::FairLock lock(mutex_);
  take_orders();
  leave_news();
}

void ConnectorNode::wait_for_news(Duration most) {
  const run::MutexLock lock(wake_mutex_);
  if (!has_news()) (void)news_came_.wait_for(wake_mutex_, most);
}

/// Until it is woken.
void ConnectorNode::nap(Duration most) {
  const run::MutexLock lock(wake_mutex_);
  if (!is_woken_) (void)woken_.wait_for(wake_mutex_, most);
  is_woken_ = false;
}

void ConnectorNode::wake() {
  const run::MutexLock lock(wake_mutex_);
  is_woken_ = true;
  woken_.wake_one();
}

// Serving ----------------------------------------------------------------------------------------

bool ConnectorNode::serve() {
  const run::FairLock lock(mutex_);
  return keeper_->progress();
}

// Figures ----------------------------------------------------------------------------------------

ConnectorNode::Figures ConnectorNode::figures_now() const {
  return {.moved = worker_->figures(), .kept = keeper_->figures(), .granting = keeper_->granting()};
}

ConnectorNode::Figures ConnectorNode::figures() {
  const run::FairLock lock(mutex_);
  take_orders();
  return figures_now();
}

/// Now and then.
void ConnectorNode::leave_figures() {
  const Instant now = node_->clock().now();
  if (now - left_at_ < kIdleNap) return;
  left_at_ = now;
  auto figures = std::make_shared<const Figures>(figures_now());
  const run::MutexLock lock(wake_mutex_);
  figures_ = std::move(figures);
}

std::shared_ptr<const ConnectorNode::Figures> ConnectorNode::figures_lately() {
  if (!driver_) return std::make_shared<const Figures>(figures());
  const run::MutexLock lock(wake_mutex_);
  return figures_;
}

}  // namespace towpath::standard
