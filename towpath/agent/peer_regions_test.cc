// What an agent says when a backend cannot reach what a peer's card offers.
#include <algorithm>
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/testing/agent_pair.h>
#include <towpath/agent/testing/scripted_backend.h>

namespace towpath::agent {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kRefused = "a backend cannot reach a peer's memory";

/// An agent that has a fast and a slow way to another, whose memory lies in two regions.
class PeerRegionsTest : public ::testing::Test {
 protected:
  PeerRegionsTest() {
    fast.on_import = [](const RegionDescriptor&) {
      return error(Code::denied, "ptrace_scope is 1", "set it to 0");
    };
    EXPECT_TRUE(registry.add(scripted_type("fast", fast)).ok());
    EXPECT_TRUE(registry.add(scripted_type("slow", slow)).ok());
    left = make("left");
    right = make("right");
    for (std::size_t i = 0; i < regions.size(); ++i) pools[i] = Pair::pool_of(*right, regions[i]);
    EXPECT_TRUE(left->load_card(*right->card()).ok());
  }
  std::unique_ptr<Agent> make(const std::string& name) {
    auto agent =
        *Agent::create({.name = name, .registry = &registry, .clock = &clock, .log = &log});
    for (const char* backend : {"fast", "slow"}) EXPECT_TRUE(agent->add_backend(backend).ok());
    return agent;
  }
  Status prepare(std::size_t region) {
    return left->prepare_remote("right", Pair::blocks(regions[region], 0, 1)).status();
  }

  sys::SystemClock clock;
  telemetry::CollectingSink log;
  Script fast, slow;
  backend::Registry registry;
  std::unique_ptr<Agent> left, right;
  std::array<memory::SharedRegion, 2> regions;
  std::array<memory::Registration, 2> pools;
};

TEST_F(PeerRegionsTest, a_refused_way_is_told_once_for_a_peer) {
  EXPECT_EQ(log.count_of(kRefused), 0U) << "nobody has asked for it yet";
  EXPECT_TRUE(prepare(0).ok());
  EXPECT_TRUE(prepare(1).ok());
  EXPECT_TRUE(prepare(0).ok());
  ASSERT_EQ(log.count_of(kRefused), 1U);
  const std::vector<telemetry::Event> events = log.events();
  const auto told = std::ranges::find_if(
      events, [](const auto& event) { return event.message.starts_with(kRefused); });
  EXPECT_EQ(told->level, telemetry::Level::warning);
  EXPECT_THAT(telemetry::to_string(*told),
              AllOf(HasSubstr("fast"), HasSubstr("right"), HasSubstr("ptrace_scope is 1")));
}

TEST_F(PeerRegionsTest, when_no_way_is_left_the_error_has_the_last_reason) {
  slow.on_import = [](const RegionDescriptor&) { return error(Code::corrupt, "no such key"); };
  const Status why = prepare(0);
  EXPECT_EQ(why.code(), Code::unavailable);
  EXPECT_THAT(why.to_string(), HasSubstr("no such key"));
  EXPECT_EQ(log.count_of(kRefused), 2U);
}

TEST_F(PeerRegionsTest, what_a_list_names_is_imported_at_once_and_only_once) {
  const auto at = [&](std::size_t region) {
    return Descriptor{regions[region]->descriptor().address, 8, 0};
  };
  const std::array<Descriptor, 4> list = {at(0), at(1), at(0), at(1)};
  const PlainList plain{.kind = MemoryKind::system, .stretches = list};
  for (int turn = 0; turn < 2; ++turn) EXPECT_TRUE(left->prepare_remote("right", plain).ok());
  EXPECT_EQ(slow.imports, std::vector<std::size_t>{2});
  EXPECT_EQ(fast.imports, std::vector<std::size_t>{2}) << "refused, and not asked again";
}

TEST_F(PeerRegionsTest, a_list_names_the_first_stretch_that_is_out_of_reach) {
  const std::uint64_t second = regions[1]->descriptor().address;
  slow.on_import = [&](const RegionDescriptor& region) {
    return region.address == second ? error(Code::corrupt, "no such key") : Status();
  };
  for (int turn = 0; turn < 2; ++turn) {  // asked, then known
    DescriptorList list = Pair::blocks(regions[0], 0, 3);
    ASSERT_TRUE(list.add(StridedDescriptor{second, 8, 8, 2, 0}).ok());
    const Status why = left->prepare_remote("right", list).status();
    EXPECT_EQ(why.code(), Code::unavailable);
    EXPECT_THAT(why.to_string(), AllOf(HasSubstr("descriptor 3: "), HasSubstr("no such key")));
  }
  EXPECT_TRUE(prepare(0).ok()) << "the other is as good as before";
}

TEST_F(PeerRegionsTest, another_incarnation_is_another_peer) {
  EXPECT_TRUE(prepare(0).ok());
  for (auto& pool : pools) EXPECT_TRUE(pool.release().ok());
  right.reset();
  right = make("right");
  for (std::size_t i = 0; i < regions.size(); ++i) pools[i] = Pair::pool_of(*right, regions[i]);
  EXPECT_TRUE(left->load_card(*right->card()).ok());
  EXPECT_TRUE(prepare(0).ok());
  EXPECT_EQ(log.count_of(kRefused), 2U);
}

}  // namespace
}  // namespace towpath::agent
