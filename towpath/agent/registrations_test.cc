// Registrations without an agent around them. What an agent's user sees of them: agent_test,
// region_lists_test, letting_go_test.
#include <atomic>

#include <gtest/gtest.h>

#include <towpath/agent/metadata.h>
#include <towpath/agent/testing/agent_pair.h>
#include <towpath/agent/testing/agent_parts.h>
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
  backend::Registry registry;
  ASSERT_TRUE(registry.add(scripted_type("scripted", script)).ok());
  sys::SystemClock clock;
  auto agent = *Agent::create({.name = "one", .registry = &registry, .clock = &clock});
  ASSERT_TRUE(agent->add_backend("scripted").ok());
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

}  // namespace
}  // namespace towpath::agent
