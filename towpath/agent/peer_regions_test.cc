// What an agent says when a backend cannot reach what a peer's metadata offers.
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
    EXPECT_TRUE(left->load_metadata(*right->metadata()).ok());
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

TEST_F(PeerRegionsTest, a_refused_way_is_advertised_once_for_a_peer) {
  EXPECT_EQ(log.count_of(kRefused), 0U) << "nobody has asked for it yet";
  EXPECT_TRUE(prepare(0).ok());
  EXPECT_TRUE(prepare(1).ok());
  EXPECT_TRUE(prepare(0).ok());
  ASSERT_EQ(log.count_of(kRefused), 1U);
  const std::vector<telemetry::Event> events = log.events();
  const auto advertised = std::ranges::find_if(
      events, [](const auto& event) { return event.message.starts_with(kRefused); });
  EXPECT_EQ(advertised->level, telemetry::Level::warning);
  EXPECT_THAT(telemetry::to_string(*advertised),
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
  const DescriptorView plain(MemoryKind::system, list);
  for (int turn = 0; turn < 2; ++turn) EXPECT_TRUE(left->prepare_remote("right", plain).ok());
  EXPECT_EQ(slow.imports, std::vector<std::size_t>{2});
  EXPECT_EQ(fast.imports, std::vector<std::size_t>{2}) << "refused, and not asked again";
}

TEST_F(PeerRegionsTest, a_list_names_the_first_extent_that_is_out_of_reach) {
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

/// Nobody refuses anything, unless a test says so: which of the two imports the peer's memory?
class PeerImportsTest : public PeerRegionsTest {
 protected:
  PeerImportsTest() {
    fast.on_import = nullptr;
    pool = Pair::pool_of(*left, memory);
    here = *left->prepare(Pair::blocks(memory, 0, 2));
    const std::array<Descriptor, 2> list = {at(0), at(1)};
    there = *left->prepare_remote("right", {MemoryKind::system, list});
  }
  Descriptor at(std::size_t region) const {
    return {regions[region]->descriptor().address, Pair::kBlock, 0};
  }
  Result<Transfer> transfer(const std::vector<std::string>& asked) {
    return left->make_transfer(TransferOp::read, here, there, {.backends = asked});
  }
  std::string chosen(const std::vector<std::string>& asked) {
    const auto made = transfer(asked);
    return made.ok() ? std::string(made->backend()) : made.status().to_string();
  }

  const std::vector<std::size_t> once = {2};  // both regions together
  memory::SharedRegion memory;
  memory::Registration pool;
  PreparedList here, there;
};

TEST_F(PeerImportsTest, who_is_not_chosen_imports_nothing) {
  EXPECT_EQ(chosen({}), "fast");
  EXPECT_EQ(fast.imports, once);
  EXPECT_TRUE(slow.imports.empty());
}

TEST_F(PeerImportsTest, who_is_asked_for_imports_the_list_then_and_once) {
  EXPECT_EQ(chosen({"slow"}), "slow");
  EXPECT_EQ(chosen({"slow", "fast"}), "slow");
  EXPECT_EQ(slow.imports, once);
  EXPECT_EQ(fast.imports, once);
}

TEST_F(PeerImportsTest, who_costs_less_by_then_imports_it_and_is_taken) {
  fast.can.cost.latency = std::chrono::seconds(1);
  EXPECT_EQ(chosen({}), "slow");
  EXPECT_EQ(slow.imports, once);
}

TEST_F(PeerImportsTest, who_refuses_when_it_is_chosen_is_advertised_and_the_next_is_taken) {
  slow.on_import = [](const RegionDescriptor&) { return error(Code::corrupt, "no such key"); };
  EXPECT_EQ(chosen({"slow", "fast"}), "fast");
  EXPECT_EQ(log.count_of(kRefused), 1U);
  const Status why = transfer({"slow"}).status();
  EXPECT_EQ(why.code(), Code::unsupported);
  EXPECT_THAT(why.to_string(), HasSubstr("slow: no such key"));
  EXPECT_EQ(slow.imports, once) << "refused, and not asked again";
}

TEST_F(PeerImportsTest, an_explanation_asks_who_was_not_asked_yet) {
  slow.on_import = [](const RegionDescriptor&) { return error(Code::corrupt, "no such key"); };
  const auto advertised = left->explain(TransferOp::read, here, there);
  ASSERT_EQ(advertised->candidates.size(), 2U);
  EXPECT_TRUE(advertised->candidates[0].chosen);
  EXPECT_FALSE(advertised->candidates[1].possible);
  EXPECT_EQ(advertised->candidates[1].reason, "no such key");
}

TEST_F(PeerImportsTest, regions_that_one_refuses_are_imported_by_the_other_alone) {
  const std::uint64_t second = regions[1]->descriptor().address;
  EXPECT_TRUE(left->forget_peer("right").ok());
  EXPECT_TRUE(left->load_metadata(*right->metadata()).ok());
  fast.on_import = [&](const RegionDescriptor& region) {
    return region.address == second ? error(Code::denied, "not that one") : Status();
  };
  const std::array<Descriptor, 2> list = {at(0), at(1)};
  there = *left->prepare_remote("right", {MemoryKind::system, list});
  EXPECT_EQ(slow.imports, std::vector<std::size_t>{1});
  EXPECT_EQ(chosen({}), "slow");
  EXPECT_EQ(slow.imports, (std::vector<std::size_t>{1, 1})) << "the other one, for the transfer";
}

TEST_F(PeerImportsTest, nobody_is_asked_for_what_left_the_peers_metadata) {
  EXPECT_TRUE(pools[1].release().ok());
  EXPECT_TRUE(left->load_metadata(*right->metadata()).ok());
  EXPECT_THAT(transfer({"slow"}).status().to_string(), HasSubstr("prepare the lists again"));
  EXPECT_THAT(transfer({}).status().to_string(), HasSubstr("prepare the lists again"));
  EXPECT_TRUE(slow.imports.empty());
  const auto advertised = left->explain(TransferOp::read, here, there);
  EXPECT_THAT(advertised->candidates.at(1).reason, HasSubstr("no longer in the peer's metadata"));
}

TEST_F(PeerRegionsTest, another_incarnation_is_another_peer) {
  EXPECT_TRUE(prepare(0).ok());
  for (auto& pool : pools) EXPECT_TRUE(pool.release().ok());
  right.reset();
  right = make("right");
  for (std::size_t i = 0; i < regions.size(); ++i) pools[i] = Pair::pool_of(*right, regions[i]);
  EXPECT_TRUE(left->load_metadata(*right->metadata()).ok());
  EXPECT_TRUE(prepare(0).ok());
  EXPECT_EQ(log.count_of(kRefused), 2U);
}

/// Two agents, and a backend that one of them makes when they have met.
class NewBackendTest : public ::testing::Test {
 protected:
  NewBackendTest() {
    first.can.cost.latency = std::chrono::seconds(1);
    EXPECT_TRUE(registry.add(scripted_type("first", first)).ok());
    EXPECT_TRUE(registry.add(scripted_type("new", made_later)).ok());
    left = make("left");
    right = make("right");
  }
  std::unique_ptr<Agent> make(const std::string& name) {
    auto agent = *Agent::create({.name = name, .registry = &registry, .clock = &clock});
    EXPECT_TRUE(agent->add_backend("first").ok());
    return agent;
  }
  void load() {
    const auto loaded = left->load_metadata(*right->metadata());
    EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
  }
  Result<Transfer> transfer(const std::string& asked) {
    TOWPATH_TRY(const PreparedList there,
                left->prepare_remote("right", Pair::blocks(theirs, 0, 1)));
    TOWPATH_TRY(const PreparedList here, left->prepare(Pair::blocks(ours, 0, 1)));
    return left->make_transfer(TransferOp::read, here, there, {.backends = {asked}});
  }

  const std::vector<std::string> both = {"first", "new"};
  sys::SystemClock clock;
  Script first, made_later;
  backend::Registry registry;
  std::unique_ptr<Agent> left, right;
  memory::SharedRegion ours, theirs;
};

TEST_F(NewBackendTest, a_peers_is_reached_by_its_next_metadata_and_what_moves_goes_on) {
  ASSERT_TRUE(left->add_backend("new").ok());
  const auto pool = Pair::pool_of(*left, ours), there = Pair::pool_of(*right, theirs);
  load();
  first.is_eager = false;
  auto under_way = transfer("first");
  ASSERT_TRUE(under_way.ok()) << under_way.status().to_string();
  ASSERT_TRUE(under_way->post().ok());

  ASSERT_TRUE(right->add_backend("new").ok());
  const auto again = right->register_region(theirs);
  ASSERT_TRUE(again.ok());
  load();
  EXPECT_EQ(left->peer("right")->backends, both);
  const auto made = transfer("new");
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(made_later.imports, std::vector<std::size_t>{1});
  EXPECT_TRUE(left->notify("right", to_bytes("in order")).ok());
  EXPECT_EQ(first.notified.size(), 1U) << "by the path that messages took before";
  ASSERT_EQ(under_way->state(), TransferState::active) << under_way->status().to_string();
  first.active.front()->complete({});
  EXPECT_EQ(under_way->outcome(), Outcome::done);
}

TEST_F(NewBackendTest, ones_own_is_connected_when_a_peers_metadata_is_loaded_again) {
  ASSERT_TRUE(right->add_backend("new").ok());
  const auto there = Pair::pool_of(*right, theirs);
  load();
  EXPECT_EQ(left->peer("right")->backends, std::vector<std::string>{"first"});
  ASSERT_TRUE(left->add_backend("new").ok());
  const auto pool = Pair::pool_of(*left, ours);
  for (int turn = 0; turn < 2; ++turn) {
    load();
    EXPECT_EQ(left->peer("right")->backends, both);
    const auto made = transfer("new");
    EXPECT_TRUE(made.ok()) << made.status().to_string();
  }
  EXPECT_EQ(made_later.connected.size(), 3U) << "each to itself, and one to the other";
}

}  // namespace
}  // namespace towpath::agent
