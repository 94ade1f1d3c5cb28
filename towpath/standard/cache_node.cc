#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/disk/block_store.h>
#include <towpath/kv/disk/segment_format.h>
#include <towpath/kv/peers/peer_leases.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/kv/tiers/object_tier.h>
#include <towpath/layout/builder.h>
#include <towpath/memory/shared_region.h>
#include <towpath/run/file_engines.h>
#include <towpath/standard/cache_node.h>
#include <towpath/standard/configuration.h>
#include <towpath/standard/rendezvous_url.h>
#include <towpath/sys/random.h>

namespace towpath::standard {
namespace {

/// Between an engine and its server: what is held for the server waits for two reports.
constexpr Duration kReportPace = std::chrono::milliseconds(5);
constexpr Duration kServingNap = std::chrono::milliseconds(5);  // what nobody wakes for

kv::CacheShare share_of(const ConnectorNodeOptions& options) {
  return {options.name_space, kept_config(options), options.first_layer, options.first_head};
}

std::string words_of(kv::CacheShare share) {
  share.config.num_blocks = 1;
  return cat(share.name_space, "\n", to_string(share.config), ", heads ",
             share.config.num_heads.value_or(0), ", from layer ", share.first_layer, ", head ",
             share.first_head);
}

std::string name_of(const std::string& cache) {
  return cat("kv-", hex(kv::digest_of(as_bytes(cache), 0).value).substr(2));
}

/// Another for each model, share, shape and rank.
std::string folder_name(const ConnectorNodeOptions& options) {
  return name_of(cat(words_of(share_of(options)), ", rank ", options.rank));
}

void warn_of(const std::vector<Remark>& remarks, const telemetry::Log& log) {
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

Result<memory::SharedDevice> open_device(const device::DriverSource& devices,
                                         std::uint64_t ordinal) {
  TOWPATH_TRY(const std::shared_ptr<device::Driver> driver, devices.open());
  constexpr std::uint64_t kMost = std::numeric_limits<unsigned>::max();
  return driver->open(static_cast<unsigned>(std::min(ordinal, kMost)));
}

/// Those that the engine's caches lie on: their streams are what moves blocks out of them.
Result<std::vector<memory::SharedDevice>> devices_of(const ConnectorNodeOptions& options) {
  std::set<std::uint64_t> ordinals;
  for (const memory::SharedRegion& region : options.caches)
    if (region != nullptr && region->kind() == MemoryKind::device)
      ordinals.insert(region->descriptor().device_id);
  std::vector<memory::SharedDevice> all;
  for (const std::uint64_t ordinal : ordinals) {
    Result<memory::SharedDevice> opened = open_device(options.devices, ordinal);
    if (!opened.ok())
      return error(opened.code(),
                   cat("the engine's cache lies on device ", ordinal, ", which cannot be opened"),
                   "see what `towpath doctor` says of GPUs")
          .because(opened.status());
    all.push_back(*std::move(opened));
  }
  return all;
}

}  // namespace

layout::LayoutConfig kept_config(const ConnectorNodeOptions& options) {
  layout::LayoutConfig config = options.config;
  config.num_blocks = options.host_blocks;
  config.alignment = 1;
  config.format = layout::BlockFormat::nhd;
  return config;
}

std::string cache_name(kv::CacheShare share) { return name_of(words_of(std::move(share))); }

std::string server_name(const std::string& cache) { return cat("towpath-serve-", cache); }

Result<CacheNode::Meeting> CacheNode::meeting_of(const ConnectorNodeOptions& options, Role role) {
  const std::string own = cat("connector-", options.rank);
  if (options.server.empty()) {
    if (options.peers.rendezvous.empty()) return Meeting{{}, own};
    return Meeting{options.peers.rendezvous,
                   options.peers.name.empty() ? cat(own, "-", hex(sys::random_u64()).substr(2))
                                              : options.peers.name,
                   options.peers.others, options.peers.backends};
  }
  if (!options.peers.rendezvous.empty())
    return error(Code::invalid_argument,
                 cat("peers at '", printable(options.peers.rendezvous), "' and a server at '",
                     printable(options.server), "'"),
                 "name one of the two");
  if (!options.server.starts_with("unix:"))
    return error(
        Code::invalid_argument,
        cat("a server at '", printable(options.server), "' is not of this host"),
        "name the Unix socket that `towpath serve` prints, such as unix:/run/towpath/serve");
  const std::string cache = cache_name(share_of(options));
  Meeting meeting{.rendezvous = options.server, .name = {}, .backends = {"shm"}, .group = cache};
  meeting.name =
      role == Role::server ? server_name(cache) : cat(own, "-", hex(sys::random_u64()).substr(2));
  if (role == Role::engine) meeting.others = {server_name(cache)};
  return meeting;
}

Result<std::unique_ptr<CacheNode>> CacheNode::open(const ConnectorNodeOptions& options, Role role,
                                                   telemetry::Metrics* metrics) {
  if (options.host_blocks == 0 || options.host_blocks >= kv::kNoSlot)
    return error(Code::invalid_argument, cat("memory for ", options.host_blocks, " blocks"),
                 "keep at least what a step loads or saves in memory");
  TOWPATH_TRY(Meeting meeting, meeting_of(options, role));
  TOWPATH_TRY(const Configuration reported, configure(read_environment()));
  auto made = std::unique_ptr<CacheNode>(
      new CacheNode(options, role, std::move(meeting), reported.settings));
  NodeOptions inner{.name = made->meeting_.name,
                    .backends = {"loopback"},
                    .log = &made->sink_,
                    .progress_thread = false};
  for (const std::string& backend : made->meeting_.backends) inner.backends.push_back(backend);
  inner.telemetry = reported.telemetry.decide(false);
  if (inner.telemetry && metrics != nullptr) {
    inner.telemetry->metrics = metrics;
    inner.telemetry->prometheus.reset();
  }
  TOWPATH_TRY(made->node_, Node::open(inner));
  if (role == Role::engine) reported.warn(made->log());  // a server has warned, once for all caches
  warn_of(options.remarks, made->log());
  blockcopy::TransferManagerOptions copies{.agent = &made->node_->agent(),
                                           .clock = &made->node_->clock()};
  TOWPATH_TRY(copies.devices, devices_of(options));
  TOWPATH_TRY(made->manager_, blockcopy::TransferManager::create(std::move(copies)));
  return made;
}

/// Where blocks are kept: what peers read is memory that they can map.
Result<layout::PhysicalLayout> CacheNode::kept_memory() {
  layout::BuildRequest request{.registrar = &manager_->registrar(),
                               .config = kept_config(options_),
                               .kind = layout::LayoutKind::fully_contiguous,
                               .memory = memory::Allocation{.kind = MemoryKind::system}};
  if (!has_peers()) return layout::build_layout(std::move(request));
  TOWPATH_TRY(const std::uint64_t bytes, request.config.payload_bytes());
  TOWPATH_TRY(memory::SharedRegion region,
              memory::SharedMemoryRegion::create({.name = "kept", .size_bytes = bytes}));
  TOWPATH_TRY(region, layout::register_region(std::move(region), *request.registrar));
  request.memory = std::vector<memory::SharedRegion>{std::move(region)};
  return layout::build_layout(std::move(request));
}

Result<std::unique_ptr<kv::BlockTier>> CacheNode::open_files(kv::BlockDirectory& block_directory) {
  folder_ = cat(options_.directory, "/", folder_name(options_));
  files_ = options_.files;
  if (files_ == nullptr) {
    TOWPATH_TRY(files_, kv::store_files(options_.directory));
  }
  TOWPATH_TRY(auto device, run::open_file_device());
  TOWPATH_TRY(auto disk, kv::DiskTier::open(*files_,
                                            {.directory = folder_,
                                             .capacity_bytes = options_.disk_bytes,
                                             .incarnation = sys::random_u64(),
                                             .direct = options_.direct,
                                             .block_directory = &block_directory,
                                             .tier = 1},
                                            std::move(device)));
  TOWPATH_TRY(const std::uint64_t block_bytes, kept_config(options_).block_bytes());
  if (const std::string why = why_not_direct(options_, *disk, block_bytes); !why.empty())
    warn_of({{"direct", why}}, log());
  return std::unique_ptr<kv::BlockTier>(std::move(disk));
}

Result<CacheNode::Tiers> CacheNode::tiers_below(kv::BlockDirectory& block_directory) {
  Tiers tiers;
  if (!options_.directory.empty()) {
    TOWPATH_TRY(tiers.emplace_back(), open_files(block_directory));
  }
  if (options_.objects) {
    ObjectPlace place = *options_.objects;
    place.prefix = cat(place.prefix, "/", folder_name(options_));
    kv::ObjectTierOptions tier{.agent = &node_->agent(),
                               .block_directory = &block_directory,
                               .tier = static_cast<kv::TierIndex>(tiers.size() + 1)};
    TOWPATH_TRY(tier.block_bytes, kept_config(options_).block_bytes());
    TOWPATH_TRY(tiers.emplace_back(), open_object_tier(place, tier, clock()));
  }
  return tiers;
}

kv::KeeperPeers CacheNode::keeper_peers() {
  const bool with_server = !meeting_.group.empty();
  return {.agent = &node_->agent(),
          .manager = manager_.get(),
          .name_space = options_.name_space,
          .first_layer = options_.first_layer,
          .first_head = options_.first_head,
          .timeout = options_.peers.timeout,
          .collects = with_server && role_ == Role::server,
          .hands_over = with_server && role_ == Role::engine};
}

Result<std::unique_ptr<kv::TieredKeeper>> CacheNode::make_keeper() {
  TOWPATH_TRY(layout::PhysicalLayout memory, kept_memory());
  kv::TieredKeeperParts parts{.clock = &clock(),
                              .memory = std::move(memory),
                              .algorithm = options_.digest,
                              .cache = options_.cache,
                              .background = options_.background};
  if (node_->telemetry() != nullptr) parts.meter = node_->telemetry()->cache_meter();
  TOWPATH_TRY(parts.below, tiers_below(*parts.block_directory));
  if (has_peers()) parts.peers = keeper_peers();
  return kv::TieredKeeper::make(std::move(parts));
}

Status CacheNode::meet_peers(kv::TieredKeeper& keeper) const {
  const bool with_server = !meeting_.group.empty();
  TOWPATH_TRY(auto place, open_rendezvous(meeting_.rendezvous, clock(), {},
                                          with_server ? Hosting::guest : Hosting::first_to_open));
  kv::CatalogueExchangeOptions exchange{.others = meeting_.others, .group = meeting_.group};
  if (with_server) exchange.report_pace = kReportPace;
  keeper.peers()->join(std::move(place), std::move(exchange));
  return {};
}

Result<run::Worker> CacheNode::start_serving(const std::string& name, std::function<bool()> serve) {
  return run::Worker::start(name, [this, serve = std::move(serve)](const run::StopToken& stop) {
    while (!stop.stop_requested())
      if (!serve()) node_->agent().wait_for_work(kServingNap);
  });
}

}  // namespace towpath::standard
