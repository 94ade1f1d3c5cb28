#include <algorithm>
#include <utility>

#include <towpath/blockcopy/layout_package.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/kv/disk/block_store.h>
#include <towpath/kv/peers/peer_leases.h>
#include <towpath/rendezvous/hosted_rendezvous.h>
#include <towpath/run/poller.h>
#include <towpath/run/waker.h>
#include <towpath/run/worker.h>
#include <towpath/standard/cache_node.h>
#include <towpath/standard/cache_server.h>
#include <towpath/standard/configuration.h>
#include <towpath/standard/stderr_sink.h>
#include <towpath/standard/user_token.h>

namespace towpath::standard {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(500);  // for engines that are lost

/// A drive was opened; a directory is made, and shown to take a file: the first engine would find
/// out else, and be refused.
Result<std::shared_ptr<sys::FileSystem>> usable_files(const CacheServerOptions& options) {
  const std::string& directory = options.directory;
  std::shared_ptr<sys::FileSystem> files = options.files;
  if (files == nullptr) {
    TOWPATH_TRY(files, kv::store_files(directory));
  }
  if (files->file_slots(directory).count > 0) return files;
  TOWPATH_TRY(files->make_directories(directory));
  TOWPATH_TRY(files->open_temporary({.where = directory, .named = false}));
  return files;
}

/// A process that is there, or else what kept us from listening at the place.
Status why_not_hosted(const rendezvous::HostedRendezvous& place) {
  const net::Address& address = place.address();
  const auto* local = std::get_if<sys::LocalAddress>(&address);
  if (local == nullptr || place.hosting().code() != Code::already_exists ||
      !sys::connect_stream(*local).ok())
    return place.hosting();
  return error(Code::already_exists, cat("another process is at ", net::to_string(address)),
               "one server serves all engines of a host; name another socket for another");
}

}  // namespace

Result<std::string> own_server_address() {
  const std::string token = shared_token_file(read_environment());
  TOWPATH_TRY(find_shared_token(token));
  return cat("unix:", token.substr(0, token.rfind('/')), "/serve");
}

/// A cache, and the thread that serves it.
class CacheServer::ServedCache {
 public:
  static Result<std::unique_ptr<ServedCache>> open(const ConnectorNodeOptions& options,
                                                   telemetry::Metrics& metrics) {
    auto made = std::unique_ptr<ServedCache>(new ServedCache(options));
    TOWPATH_TRY(made->node_, CacheNode::open(options, CacheNode::Role::server, &metrics));
    const run::FairLock lock(made->mutex_);
    TOWPATH_TRY(made->keeper_, made->node_->make_keeper());
    return made;
  }
  /// From now on it is found at the place, and served. Waits for nobody.
  Status meet() TOWPATH_EXCLUDES(mutex_) {
    {
      const run::FairLock lock(mutex_);
      TOWPATH_TRY(node_->meet_peers(*keeper_));
    }
    TOWPATH_TRY(server_, node_->start_serving("kv-served", [this] { return serve(); }));
    return {};
  }

  Status learn(ConstByteSpan catalogue, const std::string& engine) TOWPATH_EXCLUDES(mutex_) {
    const run::FairLock lock(mutex_);
    return keeper_->peers()->learn(catalogue, engine);
  }
  void forget(const std::string& engine) TOWPATH_EXCLUDES(mutex_) {
    const run::FairLock lock(mutex_);
    keeper_->peers()->forget(engine);
    lost_since_.erase(engine);
  }

  /// Those that have been lost for so long.
  std::vector<std::string> lost_for(Duration least, Instant now) TOWPATH_EXCLUDES(mutex_) {
    const run::FairLock lock(mutex_);
    std::vector<std::string> lost;
    for (const auto& [name, engine] : keeper_->peers()->known().all()) {
      if (!keeper_->peers()->is_lost(name)) {
        lost_since_.erase(name);
      } else if (now - lost_since_.emplace(name, now).first->second >= least) {
        lost.push_back(name);
      }
    }
    return lost;
  }
  bool has_engines() const TOWPATH_EXCLUDES(mutex_) {
    const run::FairLock lock(mutex_);
    return keeper_->peers()->has_peer();
  }

  ServedFigures figures() const TOWPATH_EXCLUDES(mutex_) {
    const run::FairLock lock(mutex_);
    const kv::PeerLeases& peers = *keeper_->peers();
    const auto is_there = [&](const auto& engine) { return !peers.is_lost(engine.first); };
    return {
        .name_space = name_space_,
        .block_bytes = keeper_->memory().config().block_bytes().value(),
        .host_blocks = keeper_->memory().config().num_blocks,
        .engines = static_cast<std::uint64_t>(std::ranges::count_if(peers.known().all(), is_there)),
        .collected = keeper_->collecting(),
        .kept = keeper_->figures(),
        .peers = keeper_->granting()};
  }

 private:
  explicit ServedCache(const ConnectorNodeOptions& options) : name_space_(options.name_space) {}
  bool serve() TOWPATH_EXCLUDES(mutex_) {
    const run::FairLock lock(mutex_);
    return keeper_->progress();
  }

  const std::string name_space_;
  std::unique_ptr<CacheNode> node_;
  mutable run::FairMutex mutex_;  // the serving thread takes it again and again
  std::unique_ptr<kv::TieredKeeper> keeper_ TOWPATH_GUARDED_BY(mutex_);
  std::map<std::string, Instant> lost_since_ TOWPATH_GUARDED_BY(mutex_);
  std::optional<run::Worker> server_;  // dies first
};

/// A cache that is opened, by a thread of its own: that reads files, and asks for objects.
struct CacheServer::Opening {
  std::map<std::string, Bytes> waiting;  // catalogues, by the engines that left them
  std::optional<Result<std::unique_ptr<ServedCache>>> opened;
  std::atomic<bool> has_ended{false};  // release behind `opened`, acquire in take_opened()
  std::optional<run::Worker> worker;   // dies first
};

// The server -------------------------------------------------------------------------------------

CacheServer::CacheServer(const CacheServerOptions& options, const Settings& settings)
    : options_(options), sink_(std::make_unique<StderrSink>(settings)) {}

/// Caches take leave of the place while it is still served.
CacheServer::~CacheServer() {
  std::unique_ptr<run::Worker> leaving;
  std::map<std::string, std::unique_ptr<ServedCache>> caches;
  std::map<std::string, std::unique_ptr<Opening>> opening;
  {
    const run::MutexLock lock(mutex_);
    is_closing_ = true;
    leaving.swap(leaving_);
    caches.swap(caches_);
    opening.swap(opening_);
  }
}

Result<std::unique_ptr<CacheServer>> CacheServer::open(const CacheServerOptions& options) {
  if (!options.address.starts_with("unix:"))
    return error(Code::invalid_argument,
                 cat("'", printable(options.address), "' is no Unix socket"),
                 "a server is of one host: name unix:/path");
  if (options.caches == 0 || options.memory_bytes == 0)
    return error(
        Code::invalid_argument,
        cat(format_bytes(options.memory_bytes), " of memory for ", options.caches, " caches"),
        "give memory, for one cache at least");
  TOWPATH_TRY(const Configuration reported, configure(read_environment()));
  auto made = std::unique_ptr<CacheServer>(new CacheServer(options, reported.settings));
  reported.warn(telemetry::Log(*made->sink_, made->clock_, "serve"));
  if (!options.directory.empty()) {
    TOWPATH_TRY(made->files_, usable_files(options));
  }
  if (const auto telemetry = reported.telemetry.decide(false); telemetry && telemetry->prometheus)
    made->serve_metrics(*telemetry->prometheus);
  rendezvous::HostedRendezvousOptions place;
  place.listener.log = telemetry::Log(*made->sink_, made->clock_, "serve");
  TOWPATH_TRY(place.address, net::parse_address(options.address));
  TOWPATH_TRY(made->place_, rendezvous::HostedRendezvous::open(std::move(place), made->clock_));
  if (!made->place_->is_host()) return why_not_hosted(*made->place_);
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  made->poller_ = std::make_unique<run::Poller>(std::move(poller));
  TOWPATH_TRY(made->poller_->add(made->place_->wait_fd(), 0));
  TOWPATH_TRY(made->waker_, run::Waker::open());
  TOWPATH_TRY(made->poller_->add(made->waker_->fd(), 2));
  TOWPATH_TRY(
      run::Worker listener,
      run::Worker::start("kv-serve", [one = made.get()](const auto& stop) { one->listen(stop); }));
  made->listener_ = std::make_unique<run::Worker>(std::move(listener));
  return made;
}

/// One endpoint for all caches: they have one process, and one port.
void CacheServer::serve_metrics(const PrometheusOptions& options) {
  auto endpoint = PrometheusEndpoint::open(metrics_, options);
  if (endpoint.ok())
    endpoint_ = *std::move(endpoint);
  else
    telemetry::Log(*sink_, clock_, "serve")
        .warning("the Prometheus endpoint is left out", {{"why", endpoint.status().to_string()}});
}

/// What the engines leave at the place is heard here; served caches meet them there as guests.
void CacheServer::listen(const run::StopToken& stop) {
  (void)poller_->add(stop.fd(), 1);  // else the end waits for the next look
  std::vector<rendezvous::Change> heard;
  // Of each name the last.
  place_->watch([&heard](const rendezvous::Change& change) {
    std::erase_if(heard, [&](const auto& before) { return before.name == change.name; });
    heard.push_back(change);
  });
  for (Instant looked{0}; !stop.stop_requested();) {
    waker_->clear();  // before the look: what is opened behind it ends the next wait
    (void)place_->progress();
    for (const rendezvous::Change& change : std::exchange(heard, {})) hear(change);
    take_opened();
    if (clock_.now() - looked >= kLook) {
      looked = clock_.now();
      forget_all_lost();
    }
    (void)poller_->wait(kLook);
  }
  place_->watch({});
}

/// "CACHE/ENGINE" is an engine of the cache, or the cache itself, which is heard as well.
void CacheServer::hear(const rendezvous::Change& change) {
  const std::size_t slash = change.name.agent.find('/');
  const bool is_of_cache = slash != std::string::npos;
  const std::string cache = change.name.agent.substr(0, slash);
  const std::string engine = is_of_cache ? change.name.agent.substr(slash + 1) : "";
  if (!change.metadata) {
    if (!is_of_cache || !rendezvous::covers(change.name, {change.name.agent, kv::kCatalogueLabel}))
      return;
    const run::MutexLock lock(mutex_);
    if (const auto served = caches_.find(cache); served != caches_.end())
      served->second->forget(engine);
    if (const auto opening = opening_.find(cache); opening != opening_.end())
      opening->second->waiting.erase(engine);
    return;
  }
  if (!is_of_cache || change.name.label != kv::kCatalogueLabel)
    return refuse(change.name, to_string(change.name),
                  error(Code::invalid_argument, "it is no catalogue of a cache",
                        "engines name this socket as their server, not as a rendezvous of peers"));
  if (engine == server_name(cache)) {
    const run::MutexLock lock(mutex_);
    if (!caches_.contains(cache)) (void)place_->drop(change.name);  // it has gone, or is none
    return;
  }
  Status learned = learn(cache, engine, *change.metadata);
  if (!learned.ok())
    refuse(change.name, cat("engine '", printable(engine), "'"), std::move(learned));
}

/// What is refused would fill the place.
void CacheServer::refuse(const rendezvous::MetadataName& name, const std::string& subject,
                         Status why) {
  (void)place_->drop(name);
  const run::MutexLock lock(mutex_);
  ++refusals_.count;
  refusals_.last = error(why.code(), cat(subject, " is not served")).because(std::move(why));
}

/// Ok: it is served, or will be when its cache is open. Only the listening thread, which is here,
/// has caches opened.
Status CacheServer::learn(const std::string& cache, const std::string& engine,
                          ConstByteSpan catalogue) {
  {
    const run::MutexLock lock(mutex_);
    if (is_closing_) return error(Code::cancelled, "the server ends");
    if (const auto served = caches_.find(cache); served != caches_.end())
      return served->second->learn(catalogue, engine);
    if (const auto opening = opening_.find(cache); opening != opening_.end()) {
      opening->second->waiting[engine].assign(catalogue.begin(), catalogue.end());
      return {};
    }
  }
  TOWPATH_TRY(const kv::Catalogue all, kv::decode_catalogue(catalogue));
  TOWPATH_TRY(const blockcopy::OpenPackage package, blockcopy::open_package(all.package));
  TOWPATH_TRY(kv::check_reporter(package, engine));
  TOWPATH_TRY(const kv::CacheShare share, kv::share_of(all, package));
  if (cache_name(share) != cache)
    return error(Code::invalid_argument,
                 cat("it calls its cache ", printable(cache), ", which is ", cache_name(share)),
                 "both sides must be of one release");
  TOWPATH_TRY(const ConnectorNodeOptions options, options_for(share));
  const run::MutexLock lock(mutex_);
  if (is_closing_) return error(Code::cancelled, "the server ends");
  TOWPATH_TRY(start_opening(cache, options));
  opening_[cache]->waiting[engine].assign(catalogue.begin(), catalogue.end());
  return {};
}

Result<std::uint64_t> CacheServer::blocks_of(const kv::CacheShare& share) const {
  TOWPATH_TRY(const std::uint64_t block_bytes, share.config.block_bytes());
  if (block_bytes < kBytesPerBlockKnown)
    return error(Code::invalid_argument,
                 cat("a block has ", format_bytes(block_bytes), ", and what is known of it has ",
                     format_bytes(kBytesPerBlockKnown)),
                 "keep more tokens in a block");
  const std::uint64_t bytes = options_.memory_bytes / options_.caches;
  const auto with_what_is_known = checked_add(block_bytes, kBytesPerBlockKnown);
  const std::uint64_t blocks = with_what_is_known ? bytes / *with_what_is_known : 0;
  if (blocks >= 2) return blocks;
  return error(Code::exhausted,
               cat(format_bytes(bytes), " for each of ", options_.caches,
                   " caches, and a block has ", format_bytes(block_bytes)),
               "give the server more memory");
}

Result<ConnectorNodeOptions> CacheServer::options_for(const kv::CacheShare& share) const {
  ConnectorNodeOptions options{.name_space = share.name_space,
                               .config = share.config,
                               .first_layer = share.first_layer,
                               .first_head = share.first_head,
                               .directory = options_.directory,
                               .files = files_,
                               .disk_bytes = options_.disk_bytes / options_.caches,
                               .direct = options_.direct,
                               .objects = options_.objects,
                               .cache = options_.cache,
                               .server = options_.address};
  TOWPATH_TRY(options.host_blocks, blocks_of(share));
  if (options.objects) options.objects->bound_bytes /= options_.caches;
  return options;
}

// Opening ----------------------------------------------------------------------------------------

/// Before another goes for it: where one is to, nothing else is opened.
Status CacheServer::start_opening(const std::string& name, const ConnectorNodeOptions& options) {
  TOWPATH_TRY(const auto unused, find_place());
  if (unused && !opening_.empty())
    return error(Code::exhausted, "another cache is being opened",
                 "nothing: the engine reports again");
  auto opening = std::make_unique<Opening>();
  TOWPATH_TRY(opening->worker,
              run::Worker::start("kv-opening", [this, options, one = opening.get()](const auto&) {
                one->opened.emplace(ServedCache::open(options, metrics_));
                one->has_ended.store(true, std::memory_order_release);
                waker_->wake();
              }));
  opening_.emplace(name, std::move(opening));
  return {};
}

/// Engines that wait are served from now on, or refused.
void CacheServer::take_opened() {
  std::vector<std::pair<std::string, std::unique_ptr<Opening>>> ended;
  {
    const run::MutexLock lock(mutex_);
    for (auto& [name, opening] : opening_)
      if (opening->has_ended.load(std::memory_order_acquire))
        ended.emplace_back(name, std::move(opening));
    std::erase_if(opening_, [](const auto& one) { return one.second == nullptr; });
  }
  for (auto& [name, opening] : ended) {
    auto& opened = *opening->opened;
    const Status added = opened.ok() ? add(name, *std::move(opened)) : opened.status();
    for (const auto& [engine, catalogue] : opening->waiting) {
      Status learned = added.ok() ? learn(name, engine, catalogue) : added;
      if (!learned.ok())
        refuse({cat(name, "/", engine), kv::kCatalogueLabel},
               cat("engine '", printable(engine), "'"), std::move(learned));
    }
  }
}

/// Errors: as find_place(), where an engine has come meanwhile to the cache that was to go; those
/// of the place.
Status CacheServer::add(const std::string& name, std::unique_ptr<ServedCache> opened) {
  const run::MutexLock lock(mutex_);
  if (is_closing_) return error(Code::cancelled, "the server ends");
  const auto unused = find_place();
  if (!unused.ok()) {
    send_off(std::move(opened));
    return unused.status();
  }
  TOWPATH_TRY(opened->meet());
  if (*unused) let_go(**unused);
  caches_.emplace(name, std::move(opened));
  return {};
}

/// Nothing: there is place. Errors: exhausted (all have engines; or one is going already, and its
/// memory is not free yet).
Result<std::optional<std::string>> CacheServer::find_place() const {
  if (caches_.size() + opening_.size() < options_.caches) return std::optional<std::string>();
  const auto unused =
      std::ranges::find_if(caches_, [](const auto& one) { return !one.second->has_engines(); });
  if (unused == caches_.end())
    return error(
        Code::exhausted,
        cat("there are ", caches_.size() + opening_.size(), " caches already, all with engines"),
        "start the server for more unlike caches (--caches): one for each model and rank");
  if (is_one_leaving_)
    return error(Code::exhausted, "the cache that went last is still written to its files",
                 "nothing: the engine reports again");
  return std::optional<std::string>(unused->first);
}

void CacheServer::let_go(const std::string& name) {
  const auto going = caches_.find(name);
  forget_lost(name, *going->second, Duration::zero());
  send_off(std::move(going->second));
  caches_.erase(going);
}

/// Its farewell waits for the place, and what is in its memory goes to files: neither is for the
/// thread that serves the place.
void CacheServer::send_off(std::unique_ptr<ServedCache> going) {
  auto cache = std::make_shared<std::unique_ptr<ServedCache>>(std::move(going));
  is_one_leaving_ = true;
  auto leaving = run::Worker::start("kv-leaving", [this, cache](const run::StopToken&) {
    cache->reset();
    is_one_leaving_ = false;
  });
  if (leaving.ok())
    leaving_ = std::make_unique<run::Worker>(*std::move(leaving));
  else
    is_one_leaving_ = false;
}

/// What they have left at the place, too.
void CacheServer::forget_lost(const std::string& name, ServedCache& cache, Duration least) {
  for (const std::string& engine : cache.lost_for(least, clock_.now())) {
    cache.forget(engine);
    (void)place_->drop({cat(name, "/", engine), kv::kCatalogueLabel});
  }
}

void CacheServer::forget_all_lost() {
  const run::MutexLock lock(mutex_);
  for (const auto& [name, cache] : caches_) forget_lost(name, *cache, options_.forget_after);
}

std::vector<ServedFigures> CacheServer::figures() const {
  const run::MutexLock lock(mutex_);
  std::vector<ServedFigures> all;
  for (const auto& [name, cache] : caches_) all.emplace_back(cache->figures()).name = name;
  return all;
}

CacheServer::Refusals CacheServer::refusals() const {
  const run::MutexLock lock(mutex_);
  return refusals_;
}

}  // namespace towpath::standard
