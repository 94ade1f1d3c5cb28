// Two agents of one process over loopback, for tests.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <towpath/agent/agent.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/clock.h>
#include <towpath/telemetry/log.h>

namespace towpath::agent {

/// "left" and "right", which know each other, with a pool each.
struct Pair {
  Pair() {
    EXPECT_TRUE(registry.add(backends::loopback::loopback_type()).ok());
    left = make("left");
    right = make("right");
    left_pool = pool_of(*left, left_memory);
    right_pool = pool_of(*right, right_memory);
    introduce();
  }

  std::unique_ptr<Agent> make(const std::string& name, bool telemetry = true) {
    auto agent = Agent::create({.name = name,
                                .registry = &registry,
                                .clock = &clock,
                                .log = &log,
                                .capture_telemetry = telemetry});
    EXPECT_TRUE(agent.ok()) << agent.status().to_string();
    Status added = (*agent)->add_backend("loopback");
    EXPECT_TRUE(added.ok()) << added.to_string();
    return *std::move(agent);
  }

  static memory::Registration pool_of(Agent& agent, memory::SharedRegion& region) {
    region = *memory::SystemRegion::allocate(kPool);
    auto registered = agent.register_region(region);
    EXPECT_TRUE(registered.ok()) << registered.status().to_string();
    return *std::move(registered);
  }

  void introduce() {
    EXPECT_TRUE(left->load_metadata(*right->metadata()).ok());
    EXPECT_TRUE(right->load_metadata(*left->metadata()).ok());
  }

  static DescriptorList blocks(const memory::SharedRegion& region, std::uint64_t first,
                               std::uint64_t count) {
    DescriptorList list(MemoryKind::system);
    EXPECT_TRUE(list.add(StridedDescriptor{region->descriptor().address + first * kBlock, kBlock,
                                           kBlock, count, 0})
                    .ok());
    return list;
  }
  PreparedList mine(std::uint64_t first, std::uint64_t count) {
    auto list = left->prepare(blocks(left_memory, first, count));
    EXPECT_TRUE(list.ok()) << list.status().to_string();
    return *list;
  }
  PreparedList theirs(std::uint64_t first, std::uint64_t count) {
    auto list = left->prepare_remote("right", blocks(right_memory, first, count));
    EXPECT_TRUE(list.ok()) << list.status().to_string();
    return *list;
  }

  static constexpr std::uint64_t kBlock = 4096;
  static constexpr std::uint64_t kPool = 1024 * kBlock;
  sys::SystemClock clock;
  telemetry::CollectingSink log;
  backend::Registry registry;
  memory::SharedRegion left_memory, right_memory;
  std::unique_ptr<Agent> left, right;
  memory::Registration left_pool, right_pool;
};

inline void fill(const memory::SharedRegion& region, int seed) {
  std::byte value{static_cast<unsigned char>(seed)};
  for (std::byte& byte : region->bytes()) {
    byte = value;
    value =
        static_cast<std::byte>(static_cast<unsigned>(value) * 5 + 7 + static_cast<unsigned>(seed));
  }
}

inline bool same(const memory::SharedRegion& a, const memory::SharedRegion& b,
                 std::uint64_t bytes) {
  return std::memcmp(a->bytes().data(), b->bytes().data(), bytes) == 0;
}

}  // namespace towpath::agent
