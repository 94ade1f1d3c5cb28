#include <algorithm>
#include <filesystem>
#include <fstream>
#include <semaphore>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/testing/fake_cuda.h>
#include <towpath/run/eventually.h>
#include <towpath/standard/engine_fixture.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::standard {
namespace {

using fixture::Engine;
using fixture::kPrompt;
using fixture::kTokens;

/// Another byte in the place of the last of each long run of `seed`, in all files there.
void spoil(const std::string& folder, std::byte seed) {
  const std::string run(64, static_cast<char>(seed));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    for (auto at = bytes.find(run); at != std::string::npos; at = bytes.find(run, at)) {
      at = std::min(bytes.find_first_not_of(run[0], at), bytes.size());
      file.seekp(static_cast<std::streamoff>(at - 1)).put('!');
    }
  }
}

ConnectorPeers peers(const char* name, const char* other) {
  return {.rendezvous = cat("scope:connector-node-", ::getpid()),
          .name = name,
          .others = {other},
          .timeout = std::chrono::seconds(60)};
}

TEST(ConnectorNodeTest, an_engine_that_computes_grants_all_the_same) {
  Engine computes(peers("computes", "asks")), asks(peers("asks", "computes"));
  EXPECT_EQ(computes.serve("first", std::byte{7}), 0U);
  // From here on nobody calls in at `computes`, but for its thread.
  ASSERT_TRUE(run::eventually([&] {
    asks.update();
    return asks.found("peek") == 2 * kTokens;
  })) << asks.node->figures().granting.last_failure.to_string();
  EXPECT_EQ(asks.serve("second", std::byte{9}), 2 * kTokens);
  EXPECT_EQ(asks.first_byte(), std::byte{7});
  EXPECT_EQ(asks.node->figures().granting.leased, 2U);
  EXPECT_EQ(computes.node->figures().granting.granted, 2U);
}

TEST(ConnectorNodeTest, engines_that_work_and_serve_at_once_do_not_disturb_each_other) {
  Engine one(peers("left", "right")), other(peers("right", "left"));
  EXPECT_EQ(one.serve("first", std::byte{7}), 0U);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(one.serve(cat("again-", i), std::byte{1}), 2 * kTokens);
    EXPECT_EQ(one.first_byte(), std::byte{7});
    other.update();
  }
  ASSERT_TRUE(run::eventually([&] {
    other.update();
    return other.found("peek") == 2 * kTokens;
  }));
  EXPECT_EQ(other.serve("second", std::byte{9}), 2 * kTokens);
  EXPECT_EQ(other.first_byte(), std::byte{7});
}

TEST(ConnectorNodeTest, what_must_be_seen_twice_goes_to_files_when_it_is_wanted) {
  const auto files = sys::TemporaryDirectory::create().value();
  ConnectorNodeOptions options{.directory = files.path()};
  options.cache.admission.min_accesses = 2;
  Engine engine(options);
  const auto written = [&] {
    EXPECT_TRUE(engine.node->call([](auto& worker) { return worker.sync(); }).ok());
    return engine.node->figures().kept.written;
  };
  EXPECT_EQ(engine.serve("first", std::byte{7}), 0U);
  EXPECT_EQ(written(), 0U);
  EXPECT_EQ(engine.serve("second", std::byte{9}), 2 * kTokens);
  EXPECT_EQ(written(), 2U);
}

/// What a load in the background comes to, of an engine that orders it and calls nothing but for
/// what came.
kv::ConnectorWorker::Finished load_driven(Engine& engine) {
  EXPECT_EQ(engine.found("r"), 2 * kTokens);
  EXPECT_TRUE(
      engine.scheduler->allocate("r", std::vector<std::uint64_t>{0, 1, 2}, 2 * kTokens).ok());
  EXPECT_TRUE(engine.node
                  ->call([&](kv::ConnectorWorker& worker) {
                    return worker.start_step(engine.scheduler->build());
                  })
                  .ok());
  kv::ConnectorWorker::Finished finished;
  EXPECT_TRUE(run::eventually([&] {
    engine.node->wait_for_news(std::chrono::seconds(1));
    engine.node->gather();
    Result<ConnectorNode::News> news = engine.node->take_news();
    EXPECT_TRUE(news.ok()) << news.status().to_string();
    if (news.ok()) finished = std::move(news->finished);
    return !finished.received.empty();
  }));
  return finished;
}

TEST(ConnectorNodeTest, a_driven_worker_loads_while_its_engine_asks_for_nothing) {
  const auto files = sys::TemporaryDirectory::create().value();
  {
    Engine engine(ConnectorNodeOptions{.directory = files.path()});
    EXPECT_EQ(engine.serve("first", std::byte{7}), 0U);
    EXPECT_TRUE(engine.node->call([](auto& worker) { return worker.sync(); }).ok());
  }
  const ConnectorNodeOptions driven{.directory = files.path(), .driven = true};
  {
    Engine engine(driven);
    const auto finished = load_driven(engine);
    EXPECT_EQ(finished.received, std::vector<kv::RequestId>{"r"});
    EXPECT_TRUE(finished.failed.empty());
    EXPECT_EQ(engine.first_byte(), std::byte{7});
  }
  spoil(files.path(), std::byte{7});
  Engine engine(driven);
  const auto finished = load_driven(engine);
  EXPECT_EQ(finished.received, std::vector<kv::RequestId>{"r"});
  EXPECT_EQ(finished.failed, finished.received) << "what was loaded lacks a block";
}

/// What came up to now is taken, and that of the next `most`, in which nothing may come.
bool stays_silent(Engine& engine, Duration most) {
  engine.node->gather();
  (void)engine.node->take_news();
  const run::Deadline deadline = run::Deadline::after(sys::system_clock(), most);
  for (Duration left = most; left > Duration::zero() && !engine.node->has_news();
       left = deadline.remaining(sys::system_clock()))
    engine.node->wait_for_news(left);
  return !engine.node->has_news();
}

TEST(ConnectorNodeTest, a_driven_worker_that_only_moves_something_has_no_news) {
  constexpr Duration kLooks = std::chrono::milliseconds(600);  // that the driver makes, twice
  Engine engine(ConnectorNodeOptions{.driven = true});
  EXPECT_EQ(engine.serve("first", std::byte{7}), 0U);
  EXPECT_TRUE(stays_silent(engine, kLooks)) << "nothing was ordered";
  EXPECT_EQ(engine.found("r"), 2 * kTokens);
  EXPECT_TRUE(
      engine.scheduler->allocate("r", std::vector<std::uint64_t>{0, 1, 2}, 2 * kTokens).ok());
  kv::StepOrders orders = engine.scheduler->build();
  orders.loads.front().in_background = false;  // so that nobody waits to hear of it
  EXPECT_TRUE(
      engine.node->call([&](kv::ConnectorWorker& worker) { return worker.start_step(orders); })
          .ok());
  EXPECT_TRUE(run::eventually([&] { return engine.node->figures().kept.from_memory == 2; }));
  EXPECT_TRUE(stays_silent(engine, kLooks)) << "a step's load has moved";
}

TEST(ConnectorNodeTest, an_engine_that_leaves_word_for_the_driver_waits_for_nobody) {
  Engine engine(ConnectorNodeOptions{.driven = true});
  EXPECT_EQ(engine.found("r"), 0U);
  EXPECT_TRUE(engine.scheduler->allocate("r", std::vector<std::uint64_t>{0, 1, 2}, 0).ok());
  EXPECT_TRUE(
      engine.scheduler->advance("r", {.computed_before = 0, .computed_after = kPrompt}).ok());
  std::binary_semaphore is_at_work{0}, may_end{0};
  std::jthread other([&] {
    engine.node->call([&](kv::ConnectorWorker&) {
      is_at_work.release();
      may_end.acquire();
    });
  });
  is_at_work.acquire();
  engine.node->order(kv::encode(engine.scheduler->build()).value());
  engine.node->note_computed();
  EXPECT_TRUE(engine.node->take_news().ok());
  EXPECT_EQ(engine.node->figures_lately()->moved.saved_blocks, 0U);
  may_end.release();
  EXPECT_TRUE(
      run::eventually([&] { return engine.node->figures_lately()->moved.saved_blocks == 3; }));
  EXPECT_TRUE(run::eventually([&] {
    engine.update();
    return engine.found("s") == 2 * kTokens;
  }));
}

TEST(ConnectorNodeTest, orders_that_make_no_sense_are_said_with_the_next_news) {
  Engine engine(ConnectorNodeOptions{.driven = true});
  engine.node->gather();
  EXPECT_TRUE(engine.node->take_news().ok());
  engine.node->order(to_bytes("no orders"));
  EXPECT_TRUE(run::eventually([&] { return !engine.node->take_news().ok(); }));
  EXPECT_TRUE(engine.node->has_news()) << "what came beside it is not forgotten";
  EXPECT_TRUE(engine.node->take_news().ok()) << "once";
}

bool opens_direct(const std::string& directory) {
  const int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  return file >= 0;
}

/// Of this process, below `directory`, past the page cache.
std::size_t direct_files(const std::string& directory) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int number = std::stoi(entry.path().filename().string());
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    const int flags = ::fcntl(number, F_GETFL);
    if (target.string().starts_with(directory) && flags >= 0 && (flags & O_DIRECT) != 0) ++count;
  }
  return count;
}

TEST(ConnectorNodeTest, files_go_past_the_page_cache_where_that_is_asked_for) {
  constexpr std::uint64_t kPageOfBlock = 128;  // elements: a block has 4 KiB
  const auto files = sys::TemporaryDirectory::create("/var/tmp").value();
  if (!opens_direct(files.path())) GTEST_SKIP() << "/var/tmp has no O_DIRECT";
  for (const bool direct : {false, true}) {
    const ConnectorNodeOptions options{.config = {.inner_dim = kPageOfBlock},
                                       .directory = files.path() + (direct ? "/direct" : "/cached"),
                                       .direct = direct};
    EXPECT_EQ(Engine(options).serve("first", std::byte{7}), 0U);
    Engine again(options);
    EXPECT_EQ(direct_files(files.path()) > 0, direct);
    EXPECT_EQ(again.serve("second", std::byte{9}), 2 * kTokens);
    EXPECT_EQ(again.first_byte(), std::byte{7});
  }
}

TEST(ConnectorNodeTest, a_block_that_cannot_go_past_the_page_cache_is_warned_of) {
  const auto files = sys::TemporaryDirectory::create("/var/tmp").value();
  if (!opens_direct(files.path())) GTEST_SKIP() << "/var/tmp has no O_DIRECT";
  ::testing::internal::CaptureStderr();
  Engine engine(ConnectorNodeOptions{.directory = files.path(), .direct = true});
  EXPECT_NE(
      ::testing::internal::GetCapturedStderr().find("blocks of 512 bytes are no multiple of 4096"),
      std::string::npos);
}

TEST(ConnectorNodeTest, a_configuration_file_switches_telemetry_and_its_mistakes_are_logged) {
  const auto folder = sys::TemporaryDirectory::create().value();
  const std::string file = folder.file("nixl.cfg");
  std::ofstream(file) << "NIXL_TELEMETRY_ENABLE = true\nNIXL_TELEMETRY_DIR = \""
                      << folder.file("flights") << "\"\nNIXL_TELEMETRY_EXPROTER = \"NOP\"\n";
  const fixture::SetVariables words({{"TOWPATH_CONFIG_FILE", file}});
  ::testing::internal::CaptureStderr();
  const Engine engine{ConnectorNodeOptions{}};
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find(file + ":3"), std::string::npos) << log;
  EXPECT_FALSE(std::filesystem::is_empty(folder.file("flights")));
}

TEST(ConnectorNodeTest, the_digest_that_was_asked_for_is_what_proves_files) {
  const auto files = sys::TemporaryDirectory::create().value();
  const ConnectorNodeOptions options{.directory = files.path(),
                                     .disk_bytes = 4 * kMiB,  // all of which is looked through
                                     .digest = kv::DigestAlgorithm::crc32c};
  EXPECT_EQ(Engine(options).serve("first", std::byte{7}), 0U);
  spoil(files.path(), std::byte{7});
  Engine again(options);
  EXPECT_EQ(again.serve("second", std::byte{9}), 2 * kTokens) << "matched, not loaded";
  const auto why = again.node->call([](auto& worker) { return worker.figures().last_failure; });
  EXPECT_NE(why.to_string().find("crc32c:"), std::string::npos) << why.to_string();
}

/// The tests' libcuda, whose devices are memory of the host.
Result<std::shared_ptr<device::Driver>> open_fake_cuda() {
  TOWPATH_TRY(auto driver,
              device::CudaDriver::open({.library = device::testing::FakeCuda::path()}));
  return std::shared_ptr<device::Driver>(std::move(driver));
}

TEST(ConnectorNodeTest, a_cache_in_a_devices_memory_is_saved_and_loaded_back) {
  constexpr unsigned kOrdinal = 1;  // not the one that nothing names
  const auto files = sys::TemporaryDirectory::create().value();
  const auto gpu = open_fake_cuda().value()->open(kOrdinal).value();
  const ConnectorNodeOptions options{.devices = {.open = open_fake_cuda},
                                     .directory = files.path()};
  {
    Engine engine(options, gpu);
    EXPECT_EQ(engine.serve("first", std::byte{7}), 0U);
    EXPECT_TRUE(engine.node->call([](auto& worker) { return worker.sync(); }).ok());
    EXPECT_EQ(engine.node->figures().moved.saved_blocks, 3U);
  }
  Engine again(options, gpu);
  EXPECT_EQ(again.serve("second", std::byte{9}), 2 * kTokens);
  const auto moved = again.node->figures().moved;
  EXPECT_EQ(moved.loaded_blocks, 2U) << moved.last_failure.to_string();
  for (std::size_t layer = 0; layer < 2; ++layer) {
    // Keys and values of four blocks each, of which the first two were loaded.
    const ByteSpan bytes = again.bytes(layer);
    const std::size_t of_block = bytes.size() / 8;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      ASSERT_EQ(bytes[i], i / of_block % 4 < 2 ? std::byte{7} : std::byte{9}) << layer << " " << i;
  }
}

TEST(ConnectorNodeTest, a_cache_on_a_device_that_cannot_be_opened_is_refused) {
  const auto gpu = open_fake_cuda().value()->open(0).value();
  ConnectorNodeOptions options{
      .config = {.num_blocks = 1, .num_layers = 1, .page_size = kTokens, .inner_dim = 16},
      .caches = {memory::DeviceRegion::allocate(gpu, 4096).value()}};
  options.devices.open = []() -> Result<std::shared_ptr<device::Driver>> {
    return error(Code::unavailable, "there is no driver");
  };
  const Status refused = ConnectorNode::open(options).status();
  EXPECT_EQ(refused.code(), Code::unavailable);
  EXPECT_NE(refused.to_string().find("lies on device 0, which cannot be opened"), std::string::npos)
      << refused.to_string();
  EXPECT_NE(refused.to_string().find("there is no driver"), std::string::npos);
}

}  // namespace
}  // namespace towpath::standard
