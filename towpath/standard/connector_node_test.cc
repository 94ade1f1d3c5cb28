#include <numeric>

#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/core/text.h>
#include <towpath/kv/connector/scheduler.h>
#include <towpath/memory/system_region.h>
#include <towpath/run/eventually.h>
#include <towpath/standard/connector_node.h>

namespace towpath::standard {
namespace {

constexpr std::uint64_t kTokens = 4;
constexpr std::uint64_t kPrompt = 3 * kTokens;

/// Both halves of a connector; every byte of what is computed for a prompt is `seed`.
struct Engine {
  explicit Engine(const ConnectorPeers& peers) {
    ConnectorNodeOptions options{.name_space = "a model",
                                 .config = {.num_blocks = 4,
                                            .num_layers = 2,
                                            .outer_dim = 2,
                                            .page_size = kTokens,
                                            .inner_dim = 16,
                                            .dtype_width_bytes = 2,
                                            .num_heads = 2},
                                 .host_blocks = 16,
                                 .peers = peers};
    const std::uint64_t layer_bytes = options.config.payload_bytes().value() / 2;
    for (int layer = 0; layer < 2; ++layer)
      options.caches.push_back(memory::SystemRegion::allocate(layer_bytes).value());
    caches = options.caches;
    node = ConnectorNode::open(options).value();
    scheduler.emplace(kv::ConnectorScheduler::make({.tokens_per_block = kTokens}).value());
    update();
  }
  void update() {
    const auto report = node->call([](auto& worker) { return worker.take_report(); });
    ASSERT_TRUE(scheduler->update(report).ok());
  }
  std::uint64_t found(const kv::RequestId& request) {
    std::vector<kv::TokenId> tokens(kPrompt);
    std::iota(tokens.begin(), tokens.end(), 100);
    return scheduler->match({.request = request, .tokens = tokens}).value().tokens;
  }
  /// How many tokens were loaded.
  std::uint64_t serve(const kv::RequestId& request, std::byte seed) {
    for (const auto& cache : caches) std::ranges::fill(cache->bytes(), seed);
    const std::uint64_t loaded = found(request);
    EXPECT_TRUE(scheduler->allocate(request, std::vector<std::uint64_t>{0, 1, 2}, loaded).ok());
    EXPECT_TRUE(
        scheduler->advance(request, {.computed_before = loaded, .computed_after = kPrompt}).ok());
    const Status stepped = node->call([&](kv::ConnectorWorker& worker) -> Status {
      TOWPATH_TRY(worker.start_step(scheduler->build()));
      for (std::uint64_t layer = 0; layer < 2; ++layer)
        TOWPATH_TRY(worker.wait_for_layer_load(layer));
      worker.wait_for_save();
      return {};
    });
    EXPECT_TRUE(stepped.ok()) << stepped.to_string();
    update();
    return loaded;
  }
  std::byte first_byte() const { return caches.front()->bytes().front(); }

  std::vector<memory::SharedRegion> caches;
  std::unique_ptr<ConnectorNode> node;
  std::optional<kv::ConnectorScheduler> scheduler;
};

ConnectorPeers peers(const char* name, const char* other) {
  return {.rendezvous = cat("scope:connector-node-", ::getpid()),
          .name = name,
          .others = {other},
          .patience = std::chrono::seconds(60)};
}

TEST(ConnectorNodeTest, an_engine_that_computes_lends_all_the_same) {
  ConnectorPeers served = peers("computes", "asks");
  served.serving_thread = true;
  Engine computes(served), asks(peers("asks", "computes"));
  EXPECT_EQ(computes.serve("first", std::byte{7}), 0U);
  // From here on nobody calls in at `computes`, but for its thread.
  ASSERT_TRUE(run::eventually([&] {
    asks.update();
    return asks.found("peek") == 2 * kTokens;
  })) << asks.node->lending().last_failure.to_string();
  EXPECT_EQ(asks.serve("second", std::byte{9}), 2 * kTokens);
  EXPECT_EQ(asks.first_byte(), std::byte{7});
  EXPECT_EQ(asks.node->lending().borrowed, 2U);
  EXPECT_EQ(computes.node->lending().lent, 2U);
}

TEST(ConnectorNodeTest, engines_that_work_and_serve_at_once_do_not_disturb_each_other) {
  ConnectorPeers left = peers("left", "right"), right = peers("right", "left");
  left.serving_thread = right.serving_thread = true;
  Engine one(left), other(right);
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

}  // namespace
}  // namespace towpath::standard
