// The agent over loopback: two agents of one process, as a user sees them.
#include <atomic>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/metadata.h>
#include <towpath/agent/testing/agent_pair.h>
#include <towpath/agent/testing/scripted_agent.h>
#include <towpath/run/eventually.h>

namespace towpath::agent {
namespace {

using testing::HasSubstr;

TEST(AgentTest, a_pull_brings_the_bytes_and_reports_the_other_side) {
  Pair p;
  fill(p.right_memory, 3);
  auto pull = p.left->make_transfer(TransferOp::read, p.mine(0, 1024), p.theirs(0, 1024),
                                    {.notification = to_bytes("got them")});
  ASSERT_TRUE(pull.ok()) << pull.status().to_string();
  EXPECT_EQ(pull->state(), TransferState::prepared);
  ASSERT_TRUE(pull->post().ok());
  EXPECT_EQ(pull->wait(), Outcome::done);
  EXPECT_TRUE(pull->status().ok());
  EXPECT_TRUE(same(p.left_memory, p.right_memory, Pair::kPool));
  const auto advertised = p.right->wait_notifications(std::chrono::seconds(20));
  ASSERT_EQ(advertised.size(), 1U);
  EXPECT_EQ(advertised[0].from.name, "left");
  EXPECT_EQ(as_text(advertised[0].message), "got them");
}

TEST(AgentTest, a_push_by_index_moves_exactly_what_was_chosen) {
  Pair p;
  fill(p.left_memory, 9);
  const std::vector<std::uint32_t> here{5, 1, 7};
  const std::vector<std::uint32_t> there{2, 9, 4};
  auto push = p.left->make_transfer(TransferOp::write, p.mine(0, 16), p.theirs(0, 16),
                                    {.local = Selection::of(here), .remote = Selection::of(there)});
  ASSERT_TRUE(push->post().ok());
  ASSERT_EQ(push->wait(), Outcome::done);
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(std::memcmp(p.left_memory->bytes().data() + here[i] * Pair::kBlock,
                          p.right_memory->bytes().data() + there[i] * Pair::kBlock, Pair::kBlock),
              0);
  }
  EXPECT_EQ(p.right_memory->bytes()[0], std::byte{0}) << "not chosen, not touched";
}

TEST(AgentTest, a_finished_transfer_is_posted_again_with_another_message) {
  Pair p;
  auto pull = p.left->make_transfer(TransferOp::read, p.mine(0, 4), p.theirs(0, 4),
                                    {.notification = to_bytes("first")});
  for (int round = 0; round < 3; ++round) {
    fill(p.right_memory, round);
    ASSERT_TRUE(pull->post({.timeout = {}, .notification = to_bytes(std::to_string(round))}).ok());
    ASSERT_EQ(pull->wait(), Outcome::done);
    EXPECT_TRUE(same(p.left_memory, p.right_memory, 4 * Pair::kBlock));
  }
  std::string order;
  while (order.size() < 3) {
    for (const auto& advertised : p.right->wait_notifications(std::chrono::seconds(20)))
      order.append(as_text(advertised.message));
  }
  EXPECT_EQ(order, "012");
}

TEST(AgentTest, a_message_that_travels_over_another_backend_is_whole_at_every_post) {
  Pair p;
  backend::BackendType other = backends::loopback::loopback_type();
  other.name = "other";
  ASSERT_TRUE(p.registry.add(std::move(other)).ok());
  auto agent = p.make("alone");
  ASSERT_TRUE(agent->add_backend("other").ok());
  memory::SharedRegion region;
  const auto pool = Pair::pool_of(*agent, region);
  auto copy = agent->create_transfer(TransferOp::write, Pair::blocks(region, 0, 1), "alone",
                                     Pair::blocks(region, 1, 1),
                                     {.notification = to_bytes("whole"), .backends = {"other"}});
  ASSERT_TRUE(copy.ok()) << copy.status().to_string();
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(copy->post().ok());
    ASSERT_EQ(copy->wait(), Outcome::done);
    const auto advertised = agent->wait_notifications(std::chrono::seconds(20));
    ASSERT_EQ(advertised.size(), 1U);
    EXPECT_EQ(advertised[0].message, to_bytes("whole")) << "round " << round;
  }
}

// Breaks when the thread that finds a message taken by the other one returns before its time.
TEST(AgentTest, of_two_threads_that_wait_for_notifications_none_returns_without) {
  constexpr int kMessages = 2000;
  Pair p;
  std::atomic<int> taken{0}, ended{0}, without{0};
  const auto wait = [&] {
    for (bool goes_on = true; goes_on;) {
      const auto some = p.right->wait_notifications(std::chrono::seconds(60));
      if (some.empty()) ++without;
      goes_on = !some.empty() && as_text(some.back().message) != "end";
      taken += static_cast<int>(some.size());
    }
    ++ended;
  };
  std::jthread one(wait), other(wait);
  for (int sent = 1; ended < 2; ++sent) {
    const std::string_view text = sent < kMessages ? "one" : "end";
    ASSERT_TRUE(p.left->notify("right", as_bytes(text)).ok());
    ASSERT_TRUE(run::eventually([&] { return taken >= sent || ended == 2; })) << sent;
  }
  EXPECT_EQ(without, 0);
}

TEST(AgentTest, a_backend_that_does_not_lead_back_is_not_added) {
  Script script;
  script.on_connect = [](const AgentIdentity&) { return error(Code::unavailable, "no way"); };
  backend::Registry registry;
  ASSERT_TRUE(registry.add(scripted_type("scripted", script)).ok());
  const sys::SystemClock clock;
  const auto agent =
      Agent::create({.name = "alone", .registry = &registry, .clock = &clock}).value();
  const Bytes before = agent->metadata().value();
  EXPECT_EQ(agent->add_backend("scripted").code(), Code::unavailable);
  EXPECT_TRUE(agent->backends().empty());
  EXPECT_TRUE(agent->metadata().value() == before) << "peers learn of none";
  EXPECT_EQ(agent->notify("alone", as_bytes("x")).code(), Code::unsupported);
  script.on_connect = nullptr;
  ASSERT_TRUE(agent->add_backend("scripted").ok()) << "the name is free";
  EXPECT_TRUE(agent->notify("alone", as_bytes("x")).ok());
  EXPECT_EQ(script.notified.size(), 1U);
}

TEST(AgentTest, reports_what_a_transfer_cost_or_says_why_it_cannot) {
  Pair p;
  auto pull = p.left->make_transfer(TransferOp::read, p.mine(0, 64), p.theirs(0, 64));
  EXPECT_EQ(pull->report().code(), Code::no_telemetry) << "not posted";
  ASSERT_TRUE(pull->post().ok());
  ASSERT_EQ(pull->wait(), Outcome::done);
  const auto report = pull->report();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->bytes, 64 * Pair::kBlock);
  EXPECT_EQ(report->descriptors, 64U);
  EXPECT_EQ(report->segments, 1U) << "contiguous on both sides";
  EXPECT_GT(report->start_us, 0U);
  EXPECT_GT(report->post_us, 0);
  EXPECT_GE(report->transfer_us, report->post_us);
  EXPECT_DOUBLE_EQ(report->total_us(), report->post_us + report->transfer_us);
  EXPECT_EQ(TransferReport{}.bytes_per_second(), 0);
  auto silent = p.make("silent", false);
  memory::SharedRegion region;
  auto pool = Pair::pool_of(*silent, region);
  ASSERT_TRUE(silent->load_metadata(*p.right->metadata()).ok());
  auto other = silent->create_transfer(TransferOp::read, Pair::blocks(region, 0, 1), "right",
                                       Pair::blocks(p.right_memory, 0, 1));
  ASSERT_TRUE(other->post().ok());
  ASSERT_EQ(other->wait(), Outcome::done);
  EXPECT_EQ(other->report().code(), Code::no_telemetry);
}

TEST(AgentTest, what_is_wrong_is_refused_before_anything_moves) {
  Pair p;
  const auto read = TransferOp::read;
  EXPECT_EQ(p.left->make_transfer(read, p.theirs(0, 1), p.mine(0, 1)).code(),
            Code::invalid_argument);
  EXPECT_EQ(p.left->make_transfer(read, {}, p.theirs(0, 1)).code(), Code::invalid_argument);
  EXPECT_EQ(p.right->make_transfer(read, p.mine(0, 1), p.theirs(0, 1)).code(),
            Code::invalid_argument);
  EXPECT_EQ(p.left->make_transfer(read, p.mine(0, 2), p.theirs(0, 1)).code(),
            Code::invalid_argument);
  EXPECT_EQ(p.left->prepare(Pair::blocks(p.left_memory, 1023, 2)).code(), Code::not_found);
  EXPECT_EQ(p.left->prepare_remote("nobody", Pair::blocks(p.left_memory, 0, 1)).code(),
            Code::not_found);
  EXPECT_EQ(p.left->make_transfer(read, p.mine(0, 1), p.theirs(0, 1), {.backends = {"ucx"}}).code(),
            Code::not_found);
  EXPECT_EQ(p.left->notify("nobody", as_bytes("x")).code(), Code::not_found);
  EXPECT_EQ(p.left->forget_peer("nobody").code(), Code::not_found);
  EXPECT_EQ(p.left->load_metadata(as_bytes("garbage")).code(), Code::corrupt);
  EXPECT_EQ(p.left->load_metadata(*p.left->metadata()).code(), Code::invalid_argument) << "its own";
}

TEST(AgentTest, the_same_region_may_be_registered_twice_and_dropped_once) {
  Pair p;
  auto again = p.left->register_region(p.left_memory);
  ASSERT_TRUE(again.ok());
  p.left_pool = memory::Registration();
  EXPECT_TRUE(again->is_registered());
  EXPECT_TRUE(p.left->prepare(Pair::blocks(p.left_memory, 0, 1)).ok());
  EXPECT_TRUE(again->release().ok());
  EXPECT_EQ(p.left->prepare(Pair::blocks(p.left_memory, 0, 1)).code(), Code::not_found);
}

TEST(AgentTest, what_was_prepared_on_a_region_that_went_away_is_refused_at_post) {
  Pair p;
  const PreparedList old = p.mine(0, 1);
  auto pull = p.left->make_transfer(TransferOp::read, old, p.theirs(0, 1));
  ASSERT_TRUE(p.left_pool.release().ok());
  EXPECT_EQ(pull->post().code(), Code::not_found);
  auto anew = p.left->register_region(p.left_memory);
  EXPECT_EQ(pull->post().code(), Code::not_found) << "registering again does not revive old lists";
  EXPECT_EQ(p.left->make_transfer(TransferOp::read, old, p.theirs(0, 1)).code(), Code::not_found);
  auto fresh = p.left->make_transfer(TransferOp::read, p.mine(0, 1), p.theirs(0, 1));
  EXPECT_TRUE(fresh->post().ok());
}

TEST(AgentTest, a_newer_metadata_updates_a_peer_and_an_older_one_changes_nothing) {
  Pair p;
  const Bytes before = *p.right->metadata();
  memory::SharedRegion more = *memory::SystemRegion::allocate(8192);
  auto registered = p.right->register_region(more);
  EXPECT_EQ(p.left->check_peer("right", nullptr).code(), Code::ok);
  auto list = Pair::blocks(more, 0, 2);
  EXPECT_EQ(p.left->check_peer("right", &list).code(), Code::not_found);
  auto kept = p.theirs(0, 1);
  ASSERT_TRUE(p.left->load_metadata(*p.right->metadata()).ok());
  EXPECT_TRUE(p.left->check_peer("right", &list).ok());
  ASSERT_TRUE(p.left->load_metadata(before).ok());
  EXPECT_TRUE(p.left->check_peer("right", &list).ok()) << "an older metadata takes nothing away";
  auto pull = p.left->make_transfer(TransferOp::read, p.mine(0, 1), kept);
  EXPECT_TRUE(pull->post().ok()) << "lists on unchanged regions stay good";
  ASSERT_TRUE(registered->release().ok());
  ASSERT_TRUE(p.left->load_metadata(*p.right->metadata()).ok());
  EXPECT_EQ(p.left->check_peer("right", &list).code(), Code::not_found);
}

TEST(AgentTest, a_metadata_that_reports_one_region_over_and_over_reports_it_once) {
  Pair p;
  AgentMetadata metadata = *decode_metadata(*p.right->metadata());
  ASSERT_EQ(metadata.regions.size(), 1U);
  metadata.regions.resize(20'000, metadata.regions.front());
  for (int round = 0; round < 2; ++round) {
    ++metadata.generation;
    ASSERT_TRUE(p.left->load_metadata(*encode(metadata)).ok());
    EXPECT_EQ(p.left->peer("right")->regions, 1U);
  }
  auto pull = p.left->make_transfer(TransferOp::read, p.mine(0, 1), p.theirs(0, 1));
  EXPECT_TRUE(pull->post().ok());
}

TEST(AgentTest, a_partial_metadata_adds_only_what_it_names) {
  Pair p;
  auto third = p.make("third");
  auto some = Pair::blocks(p.right_memory, 3, 1);
  DescriptorList none(MemoryKind::system);
  ASSERT_TRUE(third->load_metadata(*p.right->metadata({.only = &none})).ok())
      << "just how to connect";
  EXPECT_EQ(third->check_peer("right", &some).code(), Code::not_found);
  ASSERT_TRUE(
      third->load_metadata(*p.right->metadata({.only = &some, .connection_info = false})).ok());
  EXPECT_TRUE(third->check_peer("right", &some).ok());
  auto unauthenticated = p.make("unauthenticated connection");
  EXPECT_EQ(
      unauthenticated->load_metadata(*p.right->metadata({.only = &some, .connection_info = false}))
          .code(),
      Code::not_found);
  auto nowhere = Pair::blocks(p.left_memory, 0, 1);
  EXPECT_EQ(p.right->metadata({.only = &nowhere}).code(), Code::not_found);
}

TEST(AgentTest, a_restarted_peer_is_another_incarnation) {
  Pair p;
  auto made = p.left->make_transfer(TransferOp::read, p.mine(0, 4), p.theirs(0, 4));
  Transfer old = *std::move(made);
  const auto incarnation = p.right->identity().incarnation;
  p.right_pool = memory::Registration();
  p.right.reset();
  if (const Status posted = old.post(); posted.ok()) {
    EXPECT_EQ(old.wait(), Outcome::peer_lost) << "noticed on the way";
  } else {
    EXPECT_EQ(posted.code(), Code::peer_lost) << posted.to_string();
  }
  p.right = p.make("right");
  p.right_pool = Pair::pool_of(*p.right, p.right_memory);
  EXPECT_NE(p.right->identity().incarnation, incarnation);
  p.introduce();
  EXPECT_FALSE(p.left->peer("right")->lost);
  fill(p.right_memory, 4);
  auto pull = p.left->make_transfer(TransferOp::read, p.mine(0, 4), p.theirs(0, 4));
  ASSERT_TRUE(pull->post().ok());
  EXPECT_EQ(pull->wait(), Outcome::done);
  EXPECT_TRUE(same(p.left_memory, p.right_memory, 4 * Pair::kBlock));
}

TEST(AgentTest, an_agent_reaches_itself_under_its_own_name) {
  Pair p;
  fill(p.left_memory, 1);
  auto copy = p.left->create_transfer(TransferOp::write, Pair::blocks(p.left_memory, 0, 4), "left",
                                      Pair::blocks(p.left_memory, 100, 4),
                                      {.notification = to_bytes("done")});
  ASSERT_TRUE(copy.ok()) << copy.status().to_string();
  ASSERT_TRUE(copy->post().ok());
  EXPECT_EQ(copy->wait(), Outcome::done);
  const auto advertised = p.left->wait_notifications(std::chrono::seconds(20));
  ASSERT_EQ(advertised.size(), 1U);
  EXPECT_EQ(advertised[0].from, p.left->identity());
}

// Its sides are made in the room of those of the transfer before.
TEST(AgentTest, a_transfer_of_plain_lists_moves_its_own_blocks_only) {
  Pair p;
  const auto extents = [](const memory::SharedRegion& region, std::vector<std::uint64_t> blocks) {
    std::vector<Descriptor> all;
    for (const std::uint64_t block : blocks)
      all.push_back({region->descriptor().address + block * Pair::kBlock, Pair::kBlock, 0});
    return all;
  };
  const std::vector<std::vector<std::uint64_t>> rounds{{9, 3, 7, 1, 8, 2}, {5, 0}, {6, 4, 11, 10}};
  for (const auto& blocks : rounds) {
    fill(p.left_memory, 1);
    fill(p.right_memory, 2);
    const auto mine = extents(p.left_memory, blocks);
    const auto theirs = extents(p.right_memory, blocks);
    auto copy = p.left->create_transfer(TransferOp::read, DescriptorView{MemoryKind::system, mine},
                                        "right", DescriptorView{MemoryKind::system, theirs});
    ASSERT_TRUE(copy.ok()) << copy.status().to_string();
    EXPECT_EQ(copy->explain().candidates.size(), 1U);
    ASSERT_TRUE(copy->post().ok());
    ASSERT_EQ(copy->wait(), Outcome::done);
    for (std::uint64_t block = 0; block < 12; ++block) {
      const auto of = [&](const memory::SharedRegion& region) {
        return region->bytes().subspan(block * Pair::kBlock, Pair::kBlock);
      };
      EXPECT_EQ(std::ranges::equal(of(p.left_memory), of(p.right_memory)),
                std::ranges::find(blocks, block) != blocks.end())
          << block;
    }
  }
  const auto nowhere = extents(p.left_memory, {1 << 20U});
  EXPECT_EQ(p.left
                ->create_transfer(TransferOp::read, DescriptorView{MemoryKind::system, nowhere},
                                  "right", DescriptorView{MemoryKind::system, nowhere})
                .code(),
            Code::not_found);
}

TEST(AgentTest, without_registry_and_clock_the_hint_names_what_brings_both) {
  const auto agent = Agent::create({.name = "alone"});
  ASSERT_EQ(agent.code(), Code::invalid_argument);
  EXPECT_THAT(std::string(agent.status().hint()), HasSubstr("standard::Node::open()"));
}

TEST(AgentTest, the_way_to_oneself_is_made_anew_after_it_was_torn_down) {
  sys::SystemClock clock;
  Script script;
  script.can.quiesced = backend::Quiescence::teardown;
  script.is_eager = false;
  const ScriptedAgent agent(script, {.name = "alone", .clock = &clock});
  memory::SharedRegion region;
  const auto pool = Pair::pool_of(*agent, region);
  const auto make = [&](std::uint64_t block) {
    return *agent->create_transfer(TransferOp::write, Pair::blocks(region, block, 1), "alone",
                                   Pair::blocks(region, block + 1, 1));
  };
  Transfer one = make(0);
  Transfer other = make(10);
  ASSERT_TRUE(one.post().ok());
  ASSERT_TRUE(other.post().ok());
  one.cancel();
  EXPECT_EQ(one.outcome(), Outcome::cancelled);
  EXPECT_EQ(other.outcome(), Outcome::peer_lost) << "it went the same way";
  EXPECT_EQ(script.connected.size(), 1U) << "made anew when it is used";
  script.is_eager = true;
  EXPECT_TRUE(other.post().ok()) << "what was made before is good again";
  EXPECT_EQ(other.outcome(), Outcome::done);
  EXPECT_EQ(script.connected.size(), 2U);
  EXPECT_FALSE(agent->peer("alone")->lost);
  EXPECT_TRUE(make(20).post().ok());
  ASSERT_TRUE(agent->notify("alone", as_bytes("hello")).ok());
  EXPECT_EQ(script.notified.size(), 1U);
}

TEST(AgentTest, a_message_to_oneself_waits_for_the_way_to_be_made_anew) {
  sys::SystemClock clock;
  Script script;
  script.can.quiesced = backend::Quiescence::teardown;
  script.on_notify = [](ScriptedConnection&, ConstByteSpan) {
    return error(Code::exhausted, "full");
  };
  const ScriptedAgent agent(script, {.name = "alone", .clock = &clock});
  memory::SharedRegion region;
  const auto pool = Pair::pool_of(*agent, region);
  ASSERT_TRUE(agent->notify("alone", as_bytes("hello")).ok());
  script.is_eager = false;
  Transfer torn = *agent->create_transfer(TransferOp::write, Pair::blocks(region, 0, 1), "alone",
                                          Pair::blocks(region, 1, 1));
  ASSERT_TRUE(torn.post().ok());
  script.on_notify = nullptr;
  torn.cancel();
  agent->progress();
  EXPECT_EQ(script.notified.size(), 1U);
}

TEST(AgentTest, explains_the_choice) {
  Pair p;
  const auto advertised = p.left->explain(TransferOp::read, p.mine(0, 4), p.theirs(0, 4));
  ASSERT_TRUE(advertised.ok());
  ASSERT_NE(advertised->chosen(), nullptr);
  EXPECT_EQ(advertised->chosen()->backend, "loopback");
  EXPECT_THAT(advertised->to_string(),
              HasSubstr("read 16 KiB in 4 descriptors, system <- system of right"));
}

TEST(AgentTest, handles_may_outlive_the_agent_and_be_dropped_in_any_order) {
  Transfer transfer;
  memory::Registration pool;
  PreparedList list;
  {
    Pair p;
    list = p.mine(0, 1);
    transfer = *p.left->make_transfer(TransferOp::read, list, p.theirs(0, 1));
    pool = std::move(p.left_pool);
    EXPECT_TRUE(pool.is_registered());
  }
  EXPECT_FALSE(pool.is_registered()) << "the agent is gone, though a handle keeps its core";
  EXPECT_EQ(transfer.post().code(), Code::not_ready);
  EXPECT_TRUE(pool.release().ok());
}

// One of several that a user names together need not take every kind of memory.
TEST(AgentTest, what_backends_refuse_is_advertised_once_and_what_is_not_theirs_never) {
  sys::SystemClock clock;
  telemetry::CollectingSink log;
  Script files, picky, good;
  files.can.pairs = {{.local = MemoryKind::disk, .remote = MemoryKind::disk, .to_self = true}};
  picky.on_register = [](const RegionDescriptor&) { return error(Code::exhausted, "no room"); };
  backend::Registry registry;
  ASSERT_TRUE(registry.add(scripted_type("files", files)).ok());
  ASSERT_TRUE(registry.add(scripted_type("picky", picky)).ok());
  ASSERT_TRUE(registry.add(scripted_type("good", good)).ok());
  const auto agent =
      *Agent::create({.name = "left", .registry = &registry, .clock = &clock, .log = &log});
  for (const char* backend : {"files", "picky", "good"})
    ASSERT_TRUE(agent->add_backend(backend).ok());
  const memory::SharedRegion region = *memory::SystemRegion::allocate(4096);
  const memory::RegisterOptions any{.backends = {"files", "picky", "good"}, .any_of_named = true};
  for (int round = 0; round < 3; ++round) {
    const auto registration = agent->register_region(region, any);
    ASSERT_TRUE(registration.ok()) << registration.status().to_string();
    EXPECT_EQ(registration->backends(), std::vector<std::string>{"good"});
  }
  std::size_t warnings = 0;
  for (const telemetry::Event& event : log.events()) {
    if (event.level != telemetry::Level::warning) continue;
    ++warnings;
    EXPECT_THAT(telemetry::to_string(event), HasSubstr("no room"));
  }
  EXPECT_EQ(warnings, 1U);
}

TEST(AgentTest, a_metadata_advertised_again_is_another_one_once_a_region_came_or_went) {
  Pair p;
  const Bytes before = *p.right->metadata();
  EXPECT_EQ(*p.right->metadata(), before);
  memory::SharedRegion more;
  memory::Registration registration = Pair::pool_of(*p.right, more);
  const Bytes with = *p.right->metadata();
  EXPECT_EQ(decode_metadata(with)->regions.size(), 2U);
  EXPECT_EQ(
      decode_metadata(*p.right->metadata({.connection_info = false}))->backends[0].connection_info,
      Bytes());
  ASSERT_TRUE(registration.release().ok());
  EXPECT_EQ(decode_metadata(*p.right->metadata())->regions.size(), 1U);
  EXPECT_GT(decode_metadata(*p.right->metadata())->generation, decode_metadata(with)->generation);
}

TEST(AgentTest, a_dropped_handle_stops_its_transfer_and_leaves_no_trace) {
  Pair p;
  for (int round = 0; round < 1000; ++round) {
    auto pull = p.left->make_transfer(TransferOp::read, p.mine(0, 1024), p.theirs(0, 1024));
    ASSERT_TRUE(pull->post().ok());
    if (round % 3 == 0) p.left->progress();
  }
  EXPECT_TRUE(p.left_pool.release().ok());
}

}  // namespace
}  // namespace towpath::agent
