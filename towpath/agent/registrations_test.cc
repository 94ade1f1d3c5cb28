// Registrations without an agent around them. What an agent's user sees of them: agent_test,
// region_lists_test, letting_go_test.
#include <atomic>

#include <gtest/gtest.h>

#include <towpath/agent/metadata.h>
#include <towpath/agent/testing/agent_pair.h>
#include <towpath/agent/testing/agent_parts.h>
#include <towpath/agent/testing/scripted_agent.h>
#include <towpath/run/eventually.h>
#include <towpath/run/worker.h>

namespace towpath::agent {
namespace {

TEST(RegistrationsTest, equal_regions_share_what_a_backend_made_until_the_last_goes) {
  Script script;
  AgentParts parts("one", script);
  const memory::SharedRegion region = *memory::SystemRegion::allocate(4096);
  memory::Registration first = parts.add(region);
  memory::Registration second = parts.add(region);
  EXPECT_EQ(script.memories, 1U);
  EXPECT_TRUE(parts.registrations->release(std::span(&first, 1)).ok());
  EXPECT_EQ(script.memories, 1U);
  EXPECT_TRUE(parts.registrations->release(std::span(&second, 1)).ok());
  EXPECT_EQ(script.memories, 0U);
}

TEST(RegistrationsTest, metadata_changes_when_regions_do_and_only_then) {
  Script script;
  AgentParts parts("one", script);
  const Bytes empty = *parts.registrations->metadata({});
  EXPECT_EQ(*parts.registrations->metadata({}), empty);
  memory::Registration pool = parts.add(*memory::SystemRegion::allocate(4096));
  EXPECT_GT(parts.registrations->metadata({})->size(), empty.size());
  EXPECT_TRUE(parts.registrations->release(std::span(&pool, 1)).ok());
  EXPECT_EQ(parts.registrations->metadata({})->size(), empty.size());
}

TEST(RegistrationsTest, metadata_names_a_backend_also_if_it_was_asked_for_while_that_was_made) {
  Script script, second;
  AgentParts parts("one", script);
  ASSERT_TRUE(parts.registry.add(scripted_type("second", second)).ok());
  auto made = *parts.backends->make("second", {}, *parts.engine);
  parts.registrations->advertise(*made);
  const auto meanwhile = decode_metadata(*parts.registrations->metadata({}));
  parts.backends->publish(std::move(made));
  parts.registrations->note_published();
  const auto afterwards = decode_metadata(*parts.registrations->metadata({}));
  EXPECT_EQ(meanwhile->backends.size(), 1U);
  EXPECT_EQ(afterwards->backends.size(), 2U);
  EXPECT_GT(afterwards->generation, meanwhile->generation);
}

TEST(RegistrationsTest, what_is_not_registered_is_named_by_its_index) {
  Script script;
  AgentParts parts("one", script);
  const memory::SharedRegion region = *memory::SystemRegion::allocate(4096);
  const memory::Registration pool = parts.add(region);
  DescriptorList list(MemoryKind::system);
  ASSERT_TRUE(list.add(extent_of(region)).ok());
  ASSERT_TRUE(list.add(Descriptor{16, 16, 0}).ok());
  ResolvedList side;
  const Status refused = parts.registrations->resolve(list, side);
  EXPECT_EQ(refused.code(), Code::not_found);
  EXPECT_EQ(refused.message().substr(0, 13), "descriptor 1:");
  EXPECT_EQ(parts.registrations->check_covers(list).code(), Code::not_found);
}

TEST(RegistrationsTest, others_register_while_bytes_of_a_released_region_come_to_rest) {
  Script script;
  script.can.quiesced = backend::Quiescence::bounded;
  script.is_eager = false;
  std::atomic<bool> has_registered{false};
  sys::SystemClock clock;
  const ScriptedAgent agent(script, {.name = "one", .clock = &clock});
  memory::SharedRegion region;
  memory::Registration pool = Pair::pool_of(*agent, region);
  auto transfer = *agent->create_transfer(TransferOp::write, Pair::blocks(region, 0, 1), "one",
                                          Pair::blocks(region, 1, 1));
  ASSERT_TRUE(transfer.post().ok());
  script.on_progress = [&] {
    if (has_registered && !script.active.empty())
      script.active.front()->complete(error(Code::cancelled, "at last"));
  };
  auto other = run::Worker::start("agent-test", [&](const run::StopToken&) {
    EXPECT_TRUE(run::eventually([&] { return transfer.state() == TransferState::draining; }));
    memory::SharedRegion more;
    const memory::Registration second = Pair::pool_of(*agent, more);
    has_registered = true;
  });
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(pool.release().ok()) << "it would wait for the other thread, and that one for it";
  EXPECT_TRUE(has_registered);
}

/// An agent whose registrations of one region differ by their backends. A third one refuses all.
struct Differing {
  Differing() {
    EXPECT_TRUE(registry.add(scripted_type("kept", kept)).ok());
    EXPECT_TRUE(registry.add(scripted_type("other", other)).ok());
    EXPECT_TRUE(registry.add(scripted_type("picky", picky)).ok());
    picky.on_register = [](const RegionDescriptor&) { return error(Code::exhausted, "no room"); };
    agent = *Agent::create({.name = "one",
                            .registry = &registry,
                            .clock = &clock,
                            .quiesce_timeout = std::chrono::milliseconds(20)});
    for (const char* backend : {"kept", "other", "picky"})
      EXPECT_TRUE(agent->add_backend(backend).ok());
  }
  memory::Registration add(std::vector<std::string> by) {
    auto made = agent->register_region(region, {.backends = std::move(by)});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return *std::move(made);
  }
  Result<Transfer> transfer_over(const std::string& backend) {
    return agent->create_transfer(TransferOp::write, Pair::blocks(region, 0, 1), "one",
                                  Pair::blocks(region, 1, 1), {.backends = {backend}});
  }
  /// Of how many backends peers are given a key, for each row of the region.
  std::vector<std::size_t> advertised() const {
    const auto metadata = decode_metadata(*agent->metadata());
    std::vector<std::size_t> keys;
    for (const AgentMetadata::Region& row : metadata->regions) keys.push_back(row.keys.size());
    return keys;
  }

  using Keys = std::vector<std::size_t>;
  sys::SystemClock clock;
  Script kept, other, picky;
  backend::Registry registry;
  memory::SharedRegion region = *memory::SystemRegion::allocate(Pair::kPool);
  std::unique_ptr<Agent> agent;
};

TEST(RegistrationsTest, dropping_one_of_more_backends_leaves_the_other) {
  for (const bool comes_first : {true, false}) {
    Differing s;
    memory::Registration fewer, more;
    if (comes_first) fewer = s.add({"kept"});
    more = s.add({});
    if (!comes_first) fewer = s.add({"kept"});
    EXPECT_EQ(s.advertised(), Differing::Keys{2});
    Transfer stays = *s.transfer_over("kept");
    Transfer goes = *s.transfer_over("other");
    ASSERT_TRUE(stays.post().ok());
    ASSERT_TRUE(goes.post().ok());
    EXPECT_TRUE(more.release().ok());
    EXPECT_EQ(s.kept.memories, 1U);
    EXPECT_EQ(s.other.memories, 0U);
    EXPECT_TRUE(stays.post().ok()) << "its memory is registered with that backend still";
    EXPECT_EQ(goes.post().code(), Code::not_found);
    EXPECT_TRUE(s.transfer_over("kept").ok());
    EXPECT_FALSE(s.transfer_over("other").ok());
    EXPECT_EQ(s.advertised(), Differing::Keys{1});
    EXPECT_TRUE(fewer.release().ok());
    EXPECT_EQ(stays.post().code(), Code::not_found);
    EXPECT_EQ(s.kept.memories, 0U);
    EXPECT_EQ(s.advertised(), Differing::Keys{});
  }
}

TEST(RegistrationsTest, a_list_that_was_prepared_before_goes_by_the_backend_that_stays) {
  Differing s;
  s.kept.can.cost.latency = std::chrono::seconds(1);  // the other is chosen while it can
  const memory::Registration fewer = s.add({"kept"});
  memory::Registration more = s.add({});
  const PreparedList here = *s.agent->prepare(Pair::blocks(s.region, 0, 1));
  const PreparedList there = *s.agent->prepare_remote("one", Pair::blocks(s.region, 1, 1));
  const auto chosen = [&] {
    auto made = s.agent->make_transfer(TransferOp::write, here, there);
    return made.ok() && made->post().ok() ? made->backend() : made.status().to_string();
  };
  EXPECT_EQ(chosen(), "other");
  EXPECT_TRUE(more.release().ok());
  EXPECT_EQ(chosen(), "kept");
  const auto explained = s.agent->explain(TransferOp::write, here, there);
  ASSERT_EQ(explained->candidates.size(), 3U);
  EXPECT_TRUE(explained->candidates[0].chosen);
  EXPECT_FALSE(explained->candidates[1].possible);
}

TEST(RegistrationsTest, a_second_one_that_fails_half_way_leaves_the_first) {
  Differing s;
  const memory::Registration first = s.add({"kept"});
  Transfer stays = *s.transfer_over("kept");
  EXPECT_EQ(s.agent->register_region(s.region, {.backends = {"other", "picky"}}).code(),
            Code::exhausted);
  EXPECT_EQ(s.other.memories, 0U);
  EXPECT_TRUE(stays.post().ok());
  EXPECT_TRUE(s.transfer_over("kept").ok());
  EXPECT_EQ(s.advertised(), Differing::Keys{1});
}

// A buffer that is registered with one backend for good, and with another for each use.
TEST(RegistrationsTest, a_backend_may_take_again_what_it_let_go_of) {
  Differing s;
  const memory::Registration first = s.add({"kept"});
  Transfer stays = *s.transfer_over("kept");
  std::vector<Transfer> before;
  for (int round = 0; round < 3; ++round) {
    memory::Registration again = s.add({"other"});
    EXPECT_EQ(s.advertised(), Differing::Keys{2}) << "one row: a peer takes the first of several";
    for (Transfer& transfer : before)
      EXPECT_EQ(transfer.post().code(), Code::not_found) << "it was made over what is gone";
    for (const char* backend : {"kept", "other"}) {
      auto made = s.transfer_over(backend);
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      EXPECT_TRUE(made->post().ok());
      if (backend == std::string_view("other")) before.push_back(*std::move(made));
    }
    EXPECT_TRUE(again.release().ok());
    EXPECT_TRUE(stays.post().ok());
    EXPECT_EQ(s.advertised(), Differing::Keys{1});
  }
}

TEST(RegistrationsTest, what_moves_over_the_backend_that_lets_go_ends_and_nothing_else) {
  Differing s;
  s.kept.is_eager = s.other.is_eager = false;
  const memory::Registration fewer = s.add({"kept"});
  memory::Registration more = s.add({});
  Transfer stays = *s.transfer_over("kept");
  Transfer goes = *s.transfer_over("other");
  ASSERT_TRUE(stays.post().ok());
  ASSERT_TRUE(goes.post().ok());
  EXPECT_TRUE(more.release().ok());
  EXPECT_EQ(goes.outcome(), Outcome::cancelled);
  EXPECT_EQ(stays.state(), TransferState::active);
  s.kept.active.front()->complete({});
  EXPECT_EQ(stays.outcome(), Outcome::done);
}

TEST(RegistrationsTest, nobody_joins_memory_that_a_peer_still_moves) {
  bool is_moving = true;
  Differing s;
  s.other.on_check_pieces = [&] {
    return is_moving ? error(Code::not_ready, "peer far is in the middle of it") : Status();
  };
  const memory::Registration fewer = s.add({"kept"});
  memory::Registration more = s.add({});
  Transfer stays = *s.transfer_over("kept");
  EXPECT_EQ(more.release().code(), Code::not_ready);
  memory::Registration again = s.add({"other"});
  EXPECT_EQ(s.other.memories, 2U) << "the old one stands until it is quiesced";
  EXPECT_TRUE(stays.post().ok());
  is_moving = false;
  EXPECT_TRUE(more.release().ok());
  EXPECT_EQ(s.other.memories, 1U);
  EXPECT_TRUE(s.transfer_over("other").ok());
  EXPECT_TRUE(again.release().ok());
  EXPECT_EQ(s.other.memories, 0U);
  EXPECT_TRUE(stays.post().ok());
}

}  // namespace
}  // namespace towpath::agent
