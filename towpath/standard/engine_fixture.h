// Engine: both halves of a connector, and the cache of an engine that computes prompts: for tests
// only. Thread: one.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/kv/connector/scheduler.h>
#include <towpath/memory/device_region.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/connector_node.h>

namespace towpath::standard::fixture {

inline constexpr std::uint64_t kTokens = 4;
inline constexpr std::uint64_t kPrompt = 3 * kTokens;

/// Variables of this process, as long as it lives: one that reads them runs at a time.
struct SetVariables {
  explicit SetVariables(std::initializer_list<std::pair<std::string, std::string>> words)
      : words_(words) {
    for (const auto& [name, value] : words_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~SetVariables() {
    for (const auto& [name, value] : words_) ::unsetenv(name.c_str());
  }
  const std::vector<std::pair<std::string, std::string>> words_;
};

/// Both halves of a connector; every byte of what is computed for a prompt is `seed`.
struct Engine {
  explicit Engine(const ConnectorPeers& peers) : Engine(ConnectorNodeOptions{.peers = peers}) {}
  /// But for what every engine of these tests has.
  /// `device`: that its cache lies on, memory of the host in truth; null: system memory.
  explicit Engine(ConnectorNodeOptions options, const memory::SharedDevice& device = nullptr) {
    options.name_space = "a model";
    const std::uint64_t inner_dim = options.config.inner_dim;
    options.config = {.num_blocks = 4,
                      .num_layers = 2,
                      .outer_dim = 2,
                      .page_size = kTokens,
                      .inner_dim = inner_dim == 0 ? 16 : inner_dim,
                      .dtype_width_bytes = 2,
                      .num_heads = 2};
    options.host_blocks = 16;
    const std::uint64_t layer_bytes = options.config.payload_bytes().value() / 2;
    for (int layer = 0; layer < 2; ++layer) {
      if (device != nullptr)
        options.caches.push_back(memory::DeviceRegion::allocate(device, layer_bytes).value());
      else
        options.caches.push_back(memory::SystemRegion::allocate(layer_bytes).value());
    }
    caches = options.caches;
    node = ConnectorNode::open(options).value();
    scheduler.emplace(
        kv::ConnectorScheduler::make({.tokens_per_block = kTokens,
                                      .background_from_tokens = options.driven ? 1 : UINT64_MAX})
            .value());
    update();
  }
  void update() {
    (void)node->call([](auto& worker) { return worker.progress(); });
    node->gather();
    const auto news = node->take_news();
    ASSERT_TRUE(news.ok()) << news.status().to_string();
    for (const Bytes& report : news->reports)
      ASSERT_TRUE(scheduler->update(kv::decode_worker_report(report).value()).ok());
  }
  std::uint64_t found(const kv::RequestId& request) {
    std::vector<kv::TokenId> tokens(kPrompt);
    std::iota(tokens.begin(), tokens.end(), first_token);
    return scheduler->match({.request = request, .tokens = tokens, .tenant = tenant})
        .value()
        .tokens;
  }
  /// How many tokens were loaded.
  std::uint64_t serve(const kv::RequestId& request, std::byte seed) {
    for (std::size_t layer = 0; layer < caches.size(); ++layer)
      std::ranges::fill(bytes(layer), seed);
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
  ByteSpan bytes(std::size_t layer) const {
    const RegionDescriptor cache = caches.at(layer)->descriptor();
    return bytes_at(cache.address, cache.length);
  }
  std::byte first_byte() const { return bytes(0).front(); }

  kv::TokenId first_token = 100;  ///< of the prompt; the others follow
  kv::TenantId tenant = 0;        ///< of the prompt
  std::vector<memory::SharedRegion> caches;
  std::unique_ptr<ConnectorNode> node;
  std::optional<kv::ConnectorScheduler> scheduler;
};

}  // namespace towpath::standard::fixture
