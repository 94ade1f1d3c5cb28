// A server of the host's KV blocks, and engines that come, go, and are killed.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/agent/metadata.h>
#include <towpath/blockcopy/layout_package.h>
#include <towpath/core/format.h>
#include <towpath/kv/disk/store_lock.h>
#include <towpath/kv/peers/peer_leases.h>
#include <towpath/layout/layout_codec.h>
#include <towpath/memory/shared_region.h>
#include <towpath/run/eventually.h>
#include <towpath/standard/cache_node.h>
#include <towpath/standard/cache_server.h>
#include <towpath/standard/engine_fixture.h>
#include <towpath/standard/rendezvous_url.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::standard {
namespace {

using fixture::Engine;
constexpr std::uint64_t kFound = 2 * fixture::kTokens;  // of a prompt that was served before
constexpr std::uint64_t kBlockBytes = 2 * 2 * fixture::kTokens * 16 * 2;  // layers, outer, elements

struct CacheServerTest : ::testing::Test {
  CacheServerOptions server_options() const {
    return {.address = address, .memory_bytes = 1 << 20, .forget_after = std::chrono::seconds(1)};
  }
  CacheServerOptions with_files() const {
    CacheServerOptions options = server_options();
    options.directory = folder.path() + "/files";
    options.disk_bytes = 1 << 24;
    return options;
  }
  ConnectorNodeOptions engine_options() const { return {.server = address}; }

  static bool finds(Engine& engine) {
    return run::eventually([&] {
      engine.update();
      return engine.found("peek") == kFound;
    });
  }
  static Status sync(Engine& engine) {
    return engine.node->call([](auto& worker) { return worker.sync(); });
  }
  /// Keeps what it computes for the prompt, until the server has it.
  void keep(Engine& engine, std::byte seed) const {
    ASSERT_TRUE(is_met(engine));
    EXPECT_EQ(engine.serve("first", seed), 0U);
    const Status synced = sync(engine);
    EXPECT_TRUE(synced.ok()) << synced.to_string();
  }
  static bool is_met(Engine& engine) {
    return run::eventually([&] { return engine.node->figures().granting.peers == 1; });
  }

  sys::SystemClock clock;
  sys::TemporaryDirectory folder = sys::TemporaryDirectory::create().value();
  std::string address = cat("unix:", folder.path(), "/serve");
};

/// Seen by this process and its children.
class SharedCounter {
 public:
  std::atomic<std::uint64_t>& count() const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(memory_->bytes().data());
  }

 private:
  memory::SharedRegion memory_ =
      memory::SharedMemoryRegion::create({.name = "counter", .size_bytes = 4096}).value();
};

/// Runs `work` in a process of its own, until it is killed.
pid_t in_a_process(const std::function<void()>& work) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  work();
  for (;;) ::pause();
}

void kill_and_reap(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(CacheServerTest, what_an_engine_keeps_outlives_it_and_is_given_to_others) {
  const auto server = CacheServer::open(server_options()).value();
  {
    Engine first(engine_options());
    keep(first, std::byte{7});
  }
  Engine second(engine_options()), third(engine_options());
  for (Engine* engine : {&second, &third}) {
    ASSERT_TRUE(finds(*engine)) << engine->node->figures().granting.last_failure.to_string();
    EXPECT_EQ(engine->serve("again", std::byte{9}), kFound);
    EXPECT_EQ(engine->first_byte(), std::byte{7});
  }
  const auto served = server->figures();
  ASSERT_EQ(served.size(), 1U);
  EXPECT_EQ(served[0].name_space, "a model");
  EXPECT_EQ(served[0].collected.collected, 3U);
  EXPECT_GE(served[0].peers.granted, 4U);
  EXPECT_EQ(server->refusals().count, 0U) << server->refusals().last.to_string();
}

TEST_F(CacheServerTest, an_engine_that_is_killed_is_forgotten_and_what_it_kept_is_not) {
  const auto server = CacheServer::open(server_options()).value();
  std::vector<std::unique_ptr<Engine>> engines;
  const pid_t killed = in_a_process([&] {
    keep(*engines.emplace_back(std::make_unique<Engine>(engine_options())), std::byte{7});
  });
  ASSERT_TRUE(run::eventually([&] {
    const auto served = server->figures();
    return served.size() == 1 && served[0].collected.collected == 3;
  }));
  kill_and_reap(killed);
  ASSERT_TRUE(run::eventually([&] { return server->figures()[0].peers.peers == 0; }));
  Engine next(engine_options());
  ASSERT_TRUE(finds(next));
  EXPECT_EQ(next.serve("again", std::byte{9}), kFound);
  EXPECT_EQ(next.first_byte(), std::byte{7});
}

TEST_F(CacheServerTest, a_server_that_is_killed_costs_misses_until_the_next_is_there) {
  const SharedCounter written;
  const auto serve = [&] {
    return in_a_process([&] {
      const auto server = CacheServer::open(with_files()).value();
      for (;; std::this_thread::yield())
        for (const ServedFigures& served : server->figures()) written.count() = served.kept.written;
    });
  };
  pid_t server = serve();
  Engine engine(engine_options());
  keep(engine, std::byte{7});
  ASSERT_TRUE(run::eventually([&] { return written.count() == 3; }));
  kill_and_reap(server);
  {
    Engine alone(engine_options());
    EXPECT_EQ(alone.serve("first", std::byte{9}), 0U);
    EXPECT_EQ(alone.first_byte(), std::byte{9});
  }
  server = serve();
  Engine next(engine_options());
  ASSERT_TRUE(finds(next)) << next.node->figures().granting.last_failure.to_string();
  EXPECT_EQ(next.serve("again", std::byte{9}), kFound);
  EXPECT_EQ(next.first_byte(), std::byte{7});
  engine.first_token = 500;
  EXPECT_EQ(engine.serve("another prompt", std::byte{8}), 0U);
  EXPECT_TRUE(sync(engine).ok());
  next.first_token = 500;
  EXPECT_TRUE(finds(next)) << "an engine that was there before finds the next server, too";
  kill_and_reap(server);
}

TEST_F(CacheServerTest, an_engine_works_without_a_server_and_finds_it_later) {
  Engine engine(engine_options());
  EXPECT_EQ(engine.serve("first", std::byte{7}), 0U);
  EXPECT_EQ(engine.serve("again", std::byte{9}), kFound) << "its own memory has it";
  const auto server = CacheServer::open(server_options()).value();
  ASSERT_TRUE(run::eventually([&] {
    const auto served = server->figures();
    return served.size() == 1 && served[0].collected.collected == 3;
  })) << "what it kept before is taken, too";
}

TEST_F(CacheServerTest, an_unlike_cache_needs_room_for_another) {
  const auto server = CacheServer::open(server_options()).value();
  std::optional<Engine> first(engine_options());
  ASSERT_TRUE(is_met(*first));
  ConnectorNodeOptions other = engine_options();
  other.config.inner_dim = 32;
  Engine second(other);
  ASSERT_TRUE(run::eventually([&] { return server->refusals().count > 0; }));
  EXPECT_NE(server->refusals().last.to_string().find("--caches"), std::string::npos)
      << server->refusals().last.to_string();
  EXPECT_EQ(second.serve("first", std::byte{7}), 0U);
  first.reset();
  EXPECT_TRUE(is_met(second)) << "the cache that nobody uses makes place";
}

TEST_F(CacheServerTest, memory_is_also_what_is_known_of_each_block) {
  CacheServerOptions options = server_options();
  const auto server = CacheServer::open(options).value();
  ConnectorNodeOptions tiny = engine_options();
  tiny.config.inner_dim = 2;  // blocks of 64 bytes
  Engine other(tiny);
  ASSERT_TRUE(run::eventually([&] { return server->refusals().count > 0; }));
  EXPECT_EQ(server->refusals().last.code(), Code::invalid_argument);
  Engine engine(engine_options());
  ASSERT_TRUE(is_met(engine));
  EXPECT_EQ(server->figures()[0].host_blocks,
            options.memory_bytes / (kBlockBytes + kBytesPerBlockKnown));
}

/// At the server's place, where any process of its user can leave what it likes.
class Guest {
 public:
  explicit Guest(const std::string& address)
      : place_(open_rendezvous(address, clock_, {}, Hosting::guest).value()) {}

  void leave(const rendezvous::MetadataName& name, ConstByteSpan metadata) {
    ASSERT_TRUE(place_->publish(name, metadata).ok());
    ASSERT_TRUE(run::eventually([&] {
      (void)place_->progress();
      return place_->standing().pending == 0;
    }));
  }
  /// What is found there under the name.
  Code find(const rendezvous::MetadataName& name) {
    std::optional<Code> found;
    EXPECT_TRUE(place_
                    ->fetch(name, run::Deadline::after(clock_, std::chrono::seconds(30)),
                            [&](const Result<Bytes>& metadata) { found = metadata.code(); })
                    .ok());
    EXPECT_TRUE(run::eventually([&] {
      (void)place_->progress();
      return found.has_value();
    }));
    return found.value_or(Code::internal);
  }

 private:
  sys::SystemClock clock_;
  std::unique_ptr<rendezvous::Rendezvous> place_;
};

/// Two layers, each of one block in a region of its own; nothing is there.
Bytes catalogue_of(const std::string& engine, const kv::CacheShare& share) {
  const AgentIdentity identity{.name = engine, .incarnation = 1};
  const std::uint64_t layer_bytes = share.config.block_bytes().value() / 2;
  const layout::LayoutDescriptor cache{.config = share.config,
                                       .kind = layout::LayoutKind::layer_separate_block_first,
                                       .agent = identity,
                                       .regions = {{0, layer_bytes}, {layer_bytes, layer_bytes}}};
  const blockcopy::LayoutPackage package{
      .metadata =
          agent::encode(agent::AgentMetadata{.identity = identity, .generation = 1}).value(),
      .layouts = {{.id = 1, .tier = "host", .layout = layout::encode(cache).value()}}};
  return kv::encode(kv::Catalogue{.name_space = share.name_space,
                                  .package = blockcopy::encode(package).value(),
                                  .layout = 1,
                                  .edition = 0})
      .value();
}

TEST_F(CacheServerTest, a_block_that_would_wrap_what_it_needs_is_refused) {
  const auto server = CacheServer::open(server_options()).value();
  const kv::CacheShare vast{.name_space = "a model",
                            .config = {.num_blocks = 1,
                                       .num_layers = 2,
                                       .outer_dim = 1,
                                       .page_size = 128,
                                       .inner_dim = (std::uint64_t{1} << 56U) - 1,
                                       .dtype_width_bytes = 1}};
  ASSERT_EQ(vast.config.block_bytes().value() + kBytesPerBlockKnown, 0U);
  Guest guest(address);
  guest.leave({cat(cache_name(vast), "/x"), kv::kCatalogueLabel}, catalogue_of("x", vast));
  ASSERT_TRUE(run::eventually([&] { return server->refusals().count > 0; }));
  EXPECT_EQ(server->refusals().count, 1U);
  EXPECT_EQ(server->refusals().last.code(), Code::exhausted) << server->refusals().last.to_string();
  Engine engine(engine_options());
  EXPECT_TRUE(is_met(engine));
}

TEST_F(CacheServerTest, what_is_no_catalogue_of_an_engine_is_not_kept) {
  const auto server = CacheServer::open(server_options()).value();
  const kv::CacheShare share{.name_space = "a model",
                             .config = {.num_blocks = 1,
                                        .num_layers = 2,
                                        .outer_dim = 1,
                                        .page_size = 16,
                                        .inner_dim = 64,
                                        .dtype_width_bytes = 1}};
  const Bytes of_y = catalogue_of("y", share);
  const std::vector<rendezvous::MetadataName> names = {
      {"stray"},
      {"stray", kv::kCatalogueLabel},
      {cat(cache_name(share), "/y"), "another label"},
      {cat(cache_name(share), "/x"), kv::kCatalogueLabel}};  // and y's
  Guest guest(address);
  for (std::uint64_t refused = 0; refused < names.size(); ++refused) {
    const std::string name = to_string(names[refused]);
    ASSERT_EQ(server->refusals().count, refused) << name;
    guest.leave(names[refused], of_y);
    ASSERT_TRUE(run::eventually([&] { return server->refusals().count > refused; })) << name;
    EXPECT_EQ(server->refusals().last.code(), Code::invalid_argument) << name;
    EXPECT_EQ(guest.find(names[refused]), Code::not_found) << name;
  }
  const rendezvous::MetadataName no_cache{cat("none/", server_name("none")), kv::kCatalogueLabel};
  guest.leave(no_cache, of_y);
  EXPECT_TRUE(run::eventually([&] { return guest.find(no_cache) == Code::not_found; }));
  EXPECT_TRUE(server->figures().empty());
  Engine engine(engine_options());
  EXPECT_TRUE(is_met(engine));
  EXPECT_EQ(server->refusals().count, names.size());
}

/// The only one of a folder, its path.
std::string only_folder_of(const std::string& directory) {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.is_directory()) found = entry.path();
  return found;
}

TEST_F(CacheServerTest, an_idle_cache_stays_where_the_newcomer_cannot_be_opened) {
  ConnectorNodeOptions other = engine_options();
  other.config.inner_dim = 32;
  {
    const auto server = CacheServer::open(with_files()).value();
    Engine newcomer(other);
    ASSERT_TRUE(is_met(newcomer));
  }
  sys::SystemFileSystem files;
  const auto taken =
      kv::lock_store(files, {.directory = only_folder_of(with_files().directory)}).value();
  const auto server = CacheServer::open(with_files()).value();
  {
    Engine first(engine_options());
    keep(first, std::byte{7});
  }
  ASSERT_TRUE(run::eventually([&] { return server->figures()[0].peers.peers == 0; }));
  const std::string idle = server->figures()[0].name;
  Engine newcomer(other);
  ASSERT_TRUE(run::eventually([&] { return server->refusals().count > 0; }));
  const auto served = server->figures();
  ASSERT_EQ(served.size(), 1U) << server->refusals().last.to_string();
  EXPECT_EQ(served[0].name, idle);
  EXPECT_EQ(served[0].collected.collected, 3U);
}

TEST_F(CacheServerTest, a_cache_that_goes_keeps_nobody_waiting) {
  const auto server = CacheServer::open(with_files()).value();
  Duration longest = Duration::max();  // of a look at the figures; a busy machine has more goes
  constexpr Duration kFarewell = std::chrono::milliseconds(500);
  for (std::uint64_t goes = 1; goes <= 4 && longest > kFarewell / 2; ++goes) {
    ConnectorNodeOptions unlike = engine_options();
    unlike.config.inner_dim = 16 * goes;
    Engine engine(unlike);
    longest = Duration::zero();
    ASSERT_TRUE(run::eventually([&] {
      const Instant asked = clock.now();
      const auto served = server->figures();
      longest = std::max(longest, clock.now() - asked);
      return served.size() == 1 && served[0].block_bytes == goes * kBlockBytes &&
             engine.node->figures().granting.peers == 1;
    }));
    if (goes == 1) longest = Duration::max();  // none went
  }
  EXPECT_LT(longest, kFarewell / 2);
}

TEST_F(CacheServerTest, a_tenant_that_floods_does_not_push_out_what_another_kept) {
  CacheServerOptions options = server_options();
  Engine flooding(engine_options()), other(engine_options());
  options.memory_bytes = 16 * (kBlockBytes + kBytesPerBlockKnown);
  options.cache.quota_percent = 50;
  const auto server = CacheServer::open(options).value();
  other.tenant = kv::tenant_of("one");
  keep(other, std::byte{7});
  flooding.tenant = kv::tenant_of("another");
  for (kv::TokenId prompt = 1; prompt <= 10; ++prompt) {
    flooding.first_token = 1000 * prompt;
    keep(flooding, std::byte{8});
  }
  Engine next(engine_options());
  ASSERT_TRUE(finds(next)) << "it was pushed out";
  EXPECT_EQ(next.serve("again", std::byte{9}), kFound);
  EXPECT_EQ(next.first_byte(), std::byte{7});
  const auto served = server->figures();
  EXPECT_EQ(served[0].kept.quota.largest, 8U);
  EXPECT_EQ(served[0].kept.quota.evictions, 30U - 8U);
}

TEST_F(CacheServerTest, metrics_have_all_caches_by_their_names) {
  const fixture::SetVariables words({{"TOWPATH_TELEMETRY_ENABLE", "y"},
                                     {"TOWPATH_TELEMETRY_EXPORTER", "prometheus"},
                                     {"TOWPATH_TELEMETRY_PROMETHEUS_PORT", "0"}});
  CacheServerOptions options = server_options();
  options.caches = 2;
  const auto server = CacheServer::open(options).value();
  Engine first(engine_options());
  ConnectorNodeOptions unlike = engine_options();
  unlike.config.inner_dim = 32;
  Engine second(unlike);
  keep(first, std::byte{7});
  keep(second, std::byte{8});
  std::set<std::string> agents;
  for (const telemetry::Metric& metric : server->metrics().snapshot())
    for (const telemetry::Label& label : metric.labels)
      if (label.name == "agent") agents.insert(label.value);
  std::set<std::string> served;
  for (const ServedFigures& one : server->figures()) served.insert(server_name(one.name));
  EXPECT_EQ(served.size(), 2U);
  EXPECT_EQ(agents, served);
  telemetry::Metrics own;
  const bool can_serve = PrometheusEndpoint::open(own, {.port = 0}).ok();
  EXPECT_EQ(server->prometheus_url().starts_with("http://127.0.0.1:"), can_serve);
}

TEST_F(CacheServerTest, a_setting_that_is_not_known_is_named_in_its_log) {
  const fixture::SetVariables words({{"TOWPATH_TELEMETRY_EXPROTER", "prometheus"}});
  ::testing::internal::CaptureStderr();
  const auto server = CacheServer::open(server_options());
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(server.ok()) << server.status().to_string();
  EXPECT_NE(log.find("TOWPATH_TELEMETRY_EXPROTER"), std::string::npos) << log;
}

TEST_F(CacheServerTest, one_server_is_at_an_address_and_engines_have_peers_or_a_server) {
  const auto server = CacheServer::open(server_options()).value();
  EXPECT_EQ(CacheServer::open(server_options()).code(), Code::already_exists);
  CacheServerOptions far = server_options();
  far.address = "tcp://127.0.0.1:1";
  EXPECT_EQ(CacheServer::open(far).code(), Code::invalid_argument);
  ConnectorNodeOptions both = engine_options();
  both.host_blocks = 16;
  both.peers.rendezvous = "scope:a";
  EXPECT_EQ(ConnectorNode::open(both).code(), Code::invalid_argument);
  both.peers.rendezvous = "";
  both.server = "tcp://127.0.0.1:1";
  EXPECT_EQ(ConnectorNode::open(both).code(), Code::invalid_argument);
}

TEST_F(CacheServerTest, an_address_where_it_cannot_listen_is_not_taken_for_a_server_s) {
  const std::string file = folder.file("file");
  { std::ofstream(file) << "no socket"; }
  for (const auto& [path, why] : {std::pair(folder.file("none/serve"), Code::not_found),
                                  std::pair(file, Code::already_exists)}) {
    CacheServerOptions options = server_options();
    options.address = cat("unix:", path);
    const auto server = CacheServer::open(options);
    EXPECT_EQ(server.code(), why) << path;
    const std::string text = server.status().to_string();
    EXPECT_EQ(text.find("another process"), std::string::npos) << text;
    EXPECT_NE(text.find("cannot listen"), std::string::npos) << text;
  }
}

TEST_F(CacheServerTest, a_directory_that_takes_no_files_is_refused_and_one_that_does_is_made) {
  CacheServerOptions options = with_files();
  for (const char* directory : {"/proc/towpath", "/proc"}) {  // of which root makes none, either
    options.directory = directory;
    EXPECT_FALSE(CacheServer::open(options).ok()) << directory;
  }
  options.directory = folder.file("a/b");
  const auto server = CacheServer::open(options);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  EXPECT_TRUE(std::filesystem::is_empty(options.directory));
}

TEST_F(CacheServerTest, another_user_is_not_served) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user";
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);  // so that the socket alone is in its way
  const auto server = CacheServer::open(server_options()).value();
  Engine own(engine_options());
  keep(own, std::byte{7});
  ::chmod((folder.path() + "/serve").c_str(), 0777);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(3);
    Engine other(engine_options());
    const bool was_cut_off = run::eventually([&] {
      other.update();
      return other.node->figures().granting.last_failure.code() == Code::unavailable;
    });
    if (!was_cut_off) ::_exit(1);
    ::_exit(other.found("peek") == 0 && other.node->figures().granting.peers == 0 ? 0 : 2);
  }
  int ended = 0;
  ::waitpid(child, &ended, 0);
  EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << ended;
  EXPECT_EQ(server->figures()[0].peers.peers, 1U);
}

}  // namespace
}  // namespace towpath::standard
