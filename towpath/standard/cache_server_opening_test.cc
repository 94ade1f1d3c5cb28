// A server that opens a cache whose files are slow, and what others have of it meanwhile.
#include <atomic>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/run/eventually.h>
#include <towpath/standard/cache_server.h>
#include <towpath/standard/engine_fixture.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/forwarding_file_system.h>

namespace towpath::standard {
namespace {

using fixture::Engine;

/// The first folder that is made in `top` is made when go_on() is called, or cannot be.
class SlowFiles final : public sys::testing::ForwardingFileSystem {
 public:
  explicit SlowFiles(std::string top) : top_(std::move(top)) {}

  void go_on(Status how) {
    how_ = std::move(how);
    may_go_on_.store(true, std::memory_order_release);
    may_go_on_.notify_all();
  }
  bool is_waiting() const { return is_waiting_; }

  Status make_directories(const std::string& path) override {
    if (path != top_ && !is_waiting_.exchange(true)) {
      may_go_on_.wait(false, std::memory_order_acquire);
      TOWPATH_TRY(how_);
    }
    return ForwardingFileSystem::make_directories(path);
  }

 private:
  const std::string top_;
  std::atomic<bool> is_waiting_{false}, may_go_on_{false};
  Status how_;
};

struct CacheServerOpeningTest : ::testing::Test {
  CacheServerOptions with_slow_files() const {
    return {.address = address,
            .memory_bytes = 1 << 20,
            .caches = 2,
            .directory = directory,
            .files = files,
            .disk_bytes = 1 << 24};
  }
  ConnectorNodeOptions unlike() const {
    ConnectorNodeOptions options{.server = address};
    options.config.inner_dim = 32;
    return options;
  }
  static bool has_server(Engine& engine) {
    return run::eventually([&] { return engine.node->figures().granting.peers == 1; });
  }

  sys::TemporaryDirectory folder = sys::TemporaryDirectory::create().value();
  std::string address = cat("unix:", folder.path(), "/serve");
  std::string directory = folder.path() + "/files";
  std::shared_ptr<SlowFiles> files = std::make_shared<SlowFiles>(directory);
};

TEST_F(CacheServerOpeningTest, a_cache_that_is_slow_to_open_keeps_only_its_own_engines_waiting) {
  const auto server = CacheServer::open(with_slow_files()).value();
  Engine slow(unlike()), as_slow(unlike());
  EXPECT_TRUE(run::eventually([&] { return files->is_waiting(); }));
  Engine other(ConnectorNodeOptions{.server = address});
  EXPECT_TRUE(has_server(other)) << other.node->figures().granting.last_failure.to_string();
  EXPECT_EQ(server->figures().size(), 1U);
  files->go_on({});
  EXPECT_TRUE(has_server(slow));
  EXPECT_TRUE(has_server(as_slow));
  EXPECT_TRUE(run::eventually([&] {
    std::uint64_t engines = 0;
    for (const ServedFigures& served : server->figures()) engines += served.engines;
    return engines == 3;
  }));
  EXPECT_EQ(server->figures().size(), 2U);
  EXPECT_EQ(server->refusals().count, 0U) << server->refusals().last.to_string();
}

TEST_F(CacheServerOpeningTest, engines_that_waited_hear_why_it_could_not_be_opened) {
  const auto server = CacheServer::open(with_slow_files()).value();
  Engine slow(unlike());
  EXPECT_TRUE(run::eventually([&] { return files->is_waiting(); }));
  EXPECT_EQ(server->refusals().count, 0U);
  files->go_on(error(Code::io_error, "the drive is broken"));
  EXPECT_TRUE(run::eventually([&] { return server->refusals().count > 0; }));
  EXPECT_EQ(server->refusals().last.code(), Code::io_error);
  EXPECT_NE(server->refusals().last.to_string().find("the drive is broken"), std::string::npos)
      << server->refusals().last.to_string();
  EXPECT_TRUE(has_server(slow)) << "it reports again, and then it can";
}

}  // namespace
}  // namespace towpath::standard
