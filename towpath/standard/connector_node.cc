#include <algorithm>
#include <thread>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/connector/tiered_keeper.h>
#include <towpath/kv/peers/peer_leases.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/kv/tiers/object_tier.h>
#include <towpath/layout/builder.h>
#include <towpath/memory/shared_region.h>
#include <towpath/run/file_engines.h>
#include <towpath/standard/connector_node.h>
#include <towpath/standard/rendezvous_url.h>
#include <towpath/standard/standard.h>
#include <towpath/standard/telemetry_environment.h>
#include <towpath/sys/random.h>

namespace towpath::standard {
namespace {

constexpr Duration kNap = std::chrono::milliseconds(5);  // of the serving thread, at most
constexpr Duration kLongestDrive = std::chrono::milliseconds(250);  // what nobody wakes for

/// Another for each model, share and shape.
std::string name_of_cache(const ConnectorNodeOptions& options) {
  layout::LayoutConfig block = kept_config(options);
  block.num_blocks = 1;
  const std::string cache = cat(options.name_space, "\n", to_string(block), ", heads ",
                                block.num_heads.value_or(0), ", from layer ", options.first_layer,
                                ", head ", options.first_head, ", rank ", options.rank);
  return cat("kv-", hex(kv::digest_of(as_bytes(cache), 0).value).substr(2));
}

bool has_peers(const ConnectorNodeOptions& options) { return !options.peers.rendezvous.empty(); }

NodeOptions node_options(const ConnectorNodeOptions& options) {
  NodeOptions node{
      .name = cat("connector-", options.rank), .backends = {"loopback"}, .progress_thread = false};
  if (!has_peers(options)) return node;
  node.name = options.peers.name.empty() ? cat(node.name, "-", hex(sys::random_u64()).substr(2))
                                         : options.peers.name;
  for (const std::string& backend : options.peers.backends) node.backends.push_back(backend);
  return node;
}

void warn_of(const std::vector<Remark>& remarks, const Clock& clock) {
  StderrSink sink;
  const telemetry::Log log(sink, clock, "connector");
  for (const Remark& remark : remarks)
    log.say_unlimited(telemetry::Level::warning, cat(remark.variable, " ", remark.why));
}

/// Empty: it is not asked for, or done.
std::string why_not_direct(const ConnectorNodeOptions& options, kv::DiskTier& disk,
                           std::uint64_t block_bytes) {
  if (!options.direct) return {};
  std::string why = disk.store().figures().direct_refusal;
  if (why.empty() && block_bytes % kv::kSegmentPage != 0)
    why = cat("blocks of ", block_bytes, " bytes are no multiple of ", kv::kSegmentPage);
  return why.empty() ? why : cat("is not done, files go through the page cache: ", why);
}

}  // namespace

layout::LayoutConfig kept_config(const ConnectorNodeOptions& options) {
  layout::LayoutConfig config = options.config;
  config.num_blocks = options.host_blocks;
  config.alignment = 1;
  config.format = layout::BlockFormat::nhd;
  return config;
}

ConnectorNode::ConnectorNode() = default;
ConnectorNode::~ConnectorNode() {
  if (!driver_) return;
  driver_->request_stop();
  wake();
}

bool ConnectorNode::is_inherited() const noexcept { return node_->agent().is_inherited(); }

Result<std::unique_ptr<ConnectorNode>> ConnectorNode::open(const ConnectorNodeOptions& options) {
  if (options.host_blocks == 0 || options.host_blocks >= kv::kNoSlot)
    return error(Code::invalid_argument, cat("memory for ", options.host_blocks, " blocks"),
                 "keep at least what a step loads or saves in memory");
  auto node = std::unique_ptr<ConnectorNode>(new ConnectorNode());
  NodeOptions inner = node_options(options);
  TOWPATH_TRY(const auto telemetry, telemetry_from(read_environment()));
  inner.telemetry = telemetry.decide(false);
  TOWPATH_TRY(node->node_, Node::open(inner));
  warn_of(options.remarks, node->node_->clock());
  TOWPATH_TRY(node->manager_, blockcopy::TransferManager::create({.agent = &node->node_->agent(),
                                                                  .clock = &node->node_->clock()}));
  TOWPATH_TRY(const blockcopy::LayoutHandle cache, node->register_caches(options));
  TOWPATH_TRY(auto own, node->make_keeper(options));
  node->keeper_ = own.get();
  TOWPATH_TRY(node->worker_, kv::ConnectorWorker::make({.manager = node->manager_.get(),
                                                        .rank = options.rank,
                                                        .clock = &node->node_->clock()},
                                                       cache, std::move(own)));
  if (has_peers(options)) TOWPATH_TRY(node->meet(options));
  if (has_peers(options) && options.background) TOWPATH_TRY(node->start_serving());
  if (options.driven) TOWPATH_TRY(node->start_driving());
  return node;
}

Result<blockcopy::LayoutHandle> ConnectorNode::register_caches(
    const ConnectorNodeOptions& options) {
  memory::Registrar& registrar = manager_->registrar();
  std::vector<memory::SharedRegion> regions;
  for (const memory::SharedRegion& region : options.caches) {
    TOWPATH_TRY(regions.emplace_back(), layout::register_region(region, registrar));
  }
  TOWPATH_TRY(layout::PhysicalLayout cache, layout::build_layout({.registrar = &registrar,
                                                                  .config = options.config,
                                                                  .kind = options.kind,
                                                                  .axes = options.axes,
                                                                  .memory = std::move(regions)}));
  return manager_->register_layout(
      std::move(cache),
      {.tier = "engine", .first_layer = options.first_layer, .first_head = options.first_head});
}

/// Where blocks are kept: what peers read is memory that they can map.
Result<layout::PhysicalLayout> ConnectorNode::kept_memory(const ConnectorNodeOptions& options) {
  layout::BuildRequest request{.registrar = &manager_->registrar(),
                               .config = kept_config(options),
                               .kind = layout::LayoutKind::fully_contiguous,
                               .memory = memory::Allocation{.kind = MemoryKind::system}};
  if (!has_peers(options)) return layout::build_layout(std::move(request));
  TOWPATH_TRY(const std::uint64_t bytes, request.config.payload_bytes());
  TOWPATH_TRY(memory::SharedRegion region,
              memory::SharedMemoryRegion::create({.name = "kept", .size_bytes = bytes}));
  TOWPATH_TRY(region, layout::register_region(std::move(region), *request.registrar));
  request.memory = std::vector<memory::SharedRegion>{std::move(region)};
  return layout::build_layout(std::move(request));
}

Result<ConnectorNode::Tiers> ConnectorNode::tiers_below(const ConnectorNodeOptions& options,
                                                        kv::BlockDirectory& block_directory) {
  Tiers tiers;
  if (!options.directory.empty()) {
    folder_ = cat(options.directory, "/", name_of_cache(options));
    TOWPATH_TRY(auto device, run::open_file_device());
    TOWPATH_TRY(auto disk, kv::DiskTier::open(files_,
                                              {.directory = folder_,
                                               .capacity_bytes = options.disk_bytes,
                                               .incarnation = sys::random_u64(),
                                               .direct = options.direct,
                                               .block_directory = &block_directory,
                                               .tier = 1},
                                              std::move(device)));
    TOWPATH_TRY(const std::uint64_t block_bytes, kept_config(options).block_bytes());
    if (const std::string why = why_not_direct(options, *disk, block_bytes); !why.empty())
      warn_of({{"direct", why}}, node_->clock());
    tiers.push_back(std::move(disk));
  }
  if (options.objects) {
    ObjectPlace place = *options.objects;
    place.prefix = cat(place.prefix, "/", name_of_cache(options));
    kv::ObjectTierOptions tier{.agent = &node_->agent(),
                               .block_directory = &block_directory,
                               .tier = static_cast<kv::TierIndex>(tiers.size() + 1)};
    TOWPATH_TRY(tier.block_bytes, kept_config(options).block_bytes());
    TOWPATH_TRY(tiers.emplace_back(), open_object_tier(place, tier, node_->clock()));
  }
  return tiers;
}

Result<std::unique_ptr<kv::TieredKeeper>> ConnectorNode::make_keeper(
    const ConnectorNodeOptions& options) {
  TOWPATH_TRY(layout::PhysicalLayout memory, kept_memory(options));
  kv::TieredKeeperParts parts{.clock = &node_->clock(),
                              .memory = std::move(memory),
                              .algorithm = options.digest,
                              .cache = options.cache,
                              .background = options.background};
  if (node_->telemetry() != nullptr) parts.meter = node_->telemetry()->cache_meter();
  TOWPATH_TRY(parts.below, tiers_below(options, *parts.block_directory));
  if (has_peers(options))
    parts.peers = {.agent = &node_->agent(),
                   .manager = manager_.get(),
                   .name_space = options.name_space,
                   .first_layer = options.first_layer,
                   .first_head = options.first_head,
                   .timeout = options.peers.patience};
  return kv::TieredKeeper::make(std::move(parts));
}

Status ConnectorNode::meet(const ConnectorNodeOptions& options) {
  TOWPATH_TRY(auto place, open_rendezvous(options.peers.rendezvous, node_->clock()));
  const run::MutexLock lock(mutex_);
  keeper_->peers()->join(std::move(place), {.others = options.peers.others});
  return {};
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

/// Until something may have come of it: work that ended, or so much time that a look is due. It
/// sleeps while nothing is under way, until wake(). False: it was woken, and not for orders.
bool ConnectorNode::drive(Duration most) {
  constexpr Duration kShort = std::chrono::microseconds(200);  // what comes has no descriptor
  const run::Deadline deadline = run::Deadline::after(node_->clock(), most);
  for (bool has_moved = false, was_woken = false;;) {
    bool more = false, is_idle = false, is_news = false;
    {
      const run::MutexLock lock(mutex_);
      more = worker_->progress();
      is_idle = worker_->is_idle();
      is_news = worker_->has_news() && !has_news();
    }
    has_moved = has_moved || more;
    const Duration left = deadline.remaining(node_->clock());
    if (is_news || (has_moved && !more) || left == Duration::zero()) return true;
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

/// The thread sleeps without the lock, and wakes for a peer's question at once; for what comes by
/// the rendezvous it looks now and then.
Status ConnectorNode::start_serving() {
  TOWPATH_TRY(server_, run::Worker::start("kv-peers", [this](const run::StopToken& stop) {
                while (!stop.stop_requested())
                  if (!serve()) node_->agent().wait_for_work(kNap);
              }));
  return {};
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
