// Memory and agents that go while transfers move, and many threads at once.
#include <atomic>
#include <new>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/testing/agent_pair.h>
#include <towpath/agent/testing/scripted_agent.h>
#include <towpath/run/eventually.h>
#include <towpath/run/worker.h>

namespace towpath::agent {
namespace {

/// An agent of one scripted backend that is late to quiesce.
struct Late {
  explicit Late(const Clock& clock, Duration timeout) {
    script.can.quiesced = backend::Quiescence::bounded;
    script.is_eager = false;
    script.on_progress = [this] {
      if (transfer.state() != TransferState::draining) return;
      if (++looks == quiesced_at)
        script.active.front()->complete(error(Code::cancelled, "at last"));
    };
    EXPECT_TRUE(registry.add(scripted_type("scripted", script)).ok());
    agent = *Agent::create(
        {.name = "late", .registry = &registry, .clock = &clock, .quiesce_timeout = timeout});
    EXPECT_TRUE(agent->add_backend("scripted").ok());
    pool = Pair::pool_of(*agent, region);
    transfer = *agent->create_transfer(TransferOp::write, Pair::blocks(region, 0, 1), "late",
                                       Pair::blocks(region, 1, 1));
    EXPECT_TRUE(transfer.post().ok());
  }
  ~Late() {
    quiesced_at = looks + 1;
    agent.reset();
  }

  Script script;
  std::atomic<int> looks{0};  // while it drains
  std::atomic<int> quiesced_at{0};
  backend::Registry registry;
  std::unique_ptr<Agent> agent;
  memory::SharedRegion region;
  memory::Registration pool;
  Transfer transfer;
};

TEST(LettingGoTest, letting_go_of_memory_sleeps_until_it_is_quiesced) {
  sys::SystemClock clock;
  Late late(clock, std::chrono::minutes(10));
  late.quiesced_at = 3;
  EXPECT_TRUE(late.pool.release().ok());
  EXPECT_EQ(late.transfer.outcome(), Outcome::cancelled);
  EXPECT_EQ(late.looks, 3);
}

TEST(LettingGoTest, letting_go_of_memory_burns_no_time_when_it_never_quiesces) {
  sys::SystemClock clock;
  Late late(clock, std::chrono::milliseconds(100));
  const Status refused = late.pool.release();
  EXPECT_EQ(refused.code(), Code::not_ready) << refused.to_string();
  EXPECT_LT(late.looks, 50) << "it sleeps between looks";
  EXPECT_EQ(late.transfer.state(), TransferState::draining);
}

TEST(LettingGoTest, bytes_that_never_quiesced_outlive_their_registration) {
  sys::SystemClock clock;
  Late late(clock, std::chrono::milliseconds(20));
  const std::weak_ptr<const memory::Region> bytes = late.region;
  EXPECT_EQ(late.pool.release().code(), Code::not_ready);
  late.pool = memory::Registration();
  late.region.reset();
  EXPECT_FALSE(bytes.expired());
}

TEST(LettingGoTest, lists_and_metadata_are_made_while_memory_waits_to_be_quiesced) {
  sys::SystemClock clock;
  Late late(clock, std::chrono::minutes(10));
  std::atomic<bool> is_made{false}, is_released{false};
  auto releases = run::Worker::start("agent-test", [&](const run::StopToken&) {
    EXPECT_TRUE(late.pool.release().ok());
    is_released = true;
  });
  ASSERT_TRUE(releases.ok());
  ASSERT_TRUE(run::eventually([&] { return late.looks > 0; }));
  auto makes = run::Worker::start("agent-test", [&](const run::StopToken&) {
    memory::SharedRegion other;
    const auto pool = Pair::pool_of(*late.agent, other);
    EXPECT_TRUE(late.agent->prepare(Pair::blocks(other, 0, 1)).ok());
    EXPECT_TRUE(late.agent->metadata().ok());
    is_made = true;
  });
  ASSERT_TRUE(makes.ok());
  EXPECT_TRUE(run::eventually([&] { return is_made.load(); }))
      << "the agent's lock is held by a thread that waits";
  late.quiesced_at = late.looks + 100;
  while (!is_released) late.agent->progress();
}

/// Counts who looks at it.
class WatchedSink final : public telemetry::EventSink {
 public:
  void emit(const telemetry::Event& event) noexcept override {
    ++looks;
    last = event;
  }
  bool wants(telemetry::Level) const noexcept override {
    ++looks;
    return true;
  }

  mutable std::atomic<int> looks{0};
  telemetry::Event last;
};

// The sink may go when the agent has gone, as that of Python's agents does.
TEST(LettingGoTest, a_handle_that_outlives_its_agent_keeps_no_backend_and_writes_no_line) {
  sys::SystemClock clock;
  WatchedSink sink;
  Script script;
  backend::Registry registry;
  ASSERT_TRUE(registry.add(scripted_type("scripted", script)).ok());
  auto agent =
      *Agent::create({.name = "one", .registry = &registry, .clock = &clock, .log = &sink});
  ASSERT_TRUE(agent->add_backend("scripted").ok());
  memory::SharedRegion region;
  auto pool = Pair::pool_of(*agent, region);
  Transfer transfer = *agent->create_transfer(TransferOp::write, Pair::blocks(region, 0, 1), "one",
                                              Pair::blocks(region, 1, 1));
  script.on_register = [](const RegionDescriptor&) { return error(Code::exhausted, "no room"); };
  for (int i = 0; i < 30; ++i)  // of which the first lines are written
    EXPECT_FALSE(agent->register_region(*memory::SystemRegion::allocate(4096)).ok());
  agent.reset();
  EXPECT_EQ(script.backends, 0U) << "what it was given may go with the agent, too";
  EXPECT_EQ(script.orphans, 0U);
  EXPECT_THAT(transfer.explain().what, ::testing::HasSubstr("was shut down"));
  ASSERT_EQ(sink.last.fields.size(), 1U) << telemetry::to_string(sink.last);
  EXPECT_EQ(sink.last.fields[0].key, "suppressed");
  sink.looks = 0;
  transfer = Transfer();
  pool = memory::Registration();
  EXPECT_EQ(sink.looks, 0);
}

/// An agent in whose memory a peer is in the middle of a piece.
struct Moved {
  Moved() {
    script.on_check_pieces = [this] {
      ++checks;
      return is_moving ? error(Code::not_ready, "peer far, process 7, is in the middle of it")
                       : Status();
    };
    EXPECT_TRUE(registry.add(scripted_type("scripted", script)).ok());
    agent = *Agent::create({.name = "moved",
                            .registry = &registry,
                            .clock = &clock,
                            .quiesce_timeout = std::chrono::milliseconds(20)});
    EXPECT_TRUE(agent->add_backend("scripted").ok());
    pool = Pair::pool_of(*agent, region);
  }

  std::atomic<bool> is_moving{true};
  std::atomic<int> checks{0};
  sys::SystemClock clock;
  Script script;
  backend::Registry registry;
  std::unique_ptr<Agent> agent;
  memory::SharedRegion region;
  memory::Registration pool;
};

TEST(LettingGoTest, peer_in_the_middle_of_a_piece_is_waited_for) {
  Moved moved;
  moved.script.on_check_pieces = [&] {
    return ++moved.checks < 100 ? error(Code::not_ready, "peer far") : Status();
  };
  EXPECT_TRUE(moved.pool.release().ok());
  EXPECT_EQ(moved.checks, 100);
  EXPECT_EQ(moved.script.memories, 0u);
}

TEST(LettingGoTest, peer_that_stands_still_makes_release_fail_by_its_name) {
  Moved moved;
  const Status refused = moved.pool.release();
  EXPECT_EQ(refused.code(), Code::not_ready);
  EXPECT_NE(refused.message().find("peer far, process 7"), std::string::npos);
  EXPECT_NE(refused.message().find("not safe to reuse"), std::string::npos);
  EXPECT_TRUE(moved.pool.is_registered());
  EXPECT_EQ(moved.script.memories, 1u);
  EXPECT_FALSE(moved.agent->prepare(Pair::blocks(moved.region, 0, 1)).ok());
  moved.is_moving = false;
  EXPECT_TRUE(moved.pool.release().ok());
  EXPECT_EQ(moved.script.memories, 0u);
}

TEST(LettingGoTest, bytes_that_a_peer_still_moves_outlive_their_registration) {
  Moved moved;
  const std::weak_ptr<const memory::Region> bytes = moved.region;
  moved.pool = memory::Registration();
  moved.region.reset();
  EXPECT_FALSE(bytes.expired());
  moved.is_moving = false;
}

TEST(LettingGoTest, bytes_that_a_peer_still_moves_outlive_their_agent) {
  struct Both {
    Moved moved;
    memory::SharedRegion other;
    memory::Registration other_pool = Pair::pool_of(*moved.agent, other);
  };
  // Stays alive with the agent's core; by the other registration a leak checker finds both.
  static auto& all = *new std::vector<Both*>;
  auto& [moved, other, other_pool] = *all.emplace_back(new Both);
  EXPECT_TRUE(other_pool.is_registered());
  const std::weak_ptr<const memory::Region> bytes = moved.region;
  moved.agent.reset();
  EXPECT_EQ(moved.pool.release().code(), Code::not_ready);
  moved.pool = memory::Registration();
  moved.region.reset();
  EXPECT_FALSE(bytes.expired());
  EXPECT_EQ(moved.script.memories, 2u);
}

TEST(LettingGoTest, memory_whose_release_failed_goes_before_the_backends_of_its_agent) {
  Moved moved;
  EXPECT_EQ(moved.pool.release().code(), Code::not_ready);
  moved.is_moving = false;
  moved.agent.reset();
  EXPECT_EQ(moved.script.memories, 0u);
  moved.pool = memory::Registration();
}

// The list holds what was imported; AddressSanitizer sees whether its backend is there when it
// goes.
TEST(LettingGoTest, peers_memory_that_never_quiesced_goes_before_the_backends) {
  sys::SystemClock clock;
  Script script;
  script.can.quiesced = backend::Quiescence::none;
  script.is_eager = false;
  PreparedList theirs;
  {
    const ScriptedAgent right(script, {.name = "right", .clock = &clock});
    const ScriptedAgent left(script, {.name = "left", .clock = &clock});
    memory::SharedRegion here, there;
    const memory::Registration pool = Pair::pool_of(*left, here);
    memory::Registration right_pool = Pair::pool_of(*right, there);
    ASSERT_TRUE(left->load_metadata(*right->metadata()).ok());
    theirs = *left->prepare_remote("right", Pair::blocks(there, 0, 1));
    Transfer transfer =
        *left->make_transfer(TransferOp::read, *left->prepare(Pair::blocks(here, 0, 1)), theirs);
    ASSERT_TRUE(transfer.post().ok());
    EXPECT_TRUE(right_pool.release().ok());
    ASSERT_TRUE(left->load_metadata(*right->metadata()).ok());
    EXPECT_EQ(transfer.state(), TransferState::draining);
    script.active.front()->complete(error(Code::cancelled, "at last"));
    EXPECT_TRUE(transfer.ended());
  }
  EXPECT_EQ(script.memories, 0u);
}

TEST(LettingGoTest, what_never_quiesces_does_not_hold_the_rest_of_a_list) {
  sys::SystemClock clock;
  Late late(clock, std::chrono::milliseconds(20));
  memory::SharedRegion other;
  std::vector<memory::Registration> list;
  list.push_back(std::move(late.pool));
  list.push_back(Pair::pool_of(*late.agent, other));
  EXPECT_EQ(late.agent->release(list).code(), Code::not_ready);
  EXPECT_TRUE(list[0].is_registered());
  EXPECT_FALSE(list[1].is_registered());
  EXPECT_EQ(other.use_count(), 1);
}

TEST(LettingGoTest, letting_go_of_memory_ends_though_the_clock_stands_still) {
  ManualClock clock;
  Late late(clock, std::chrono::milliseconds(100));
  EXPECT_EQ(late.pool.release().code(), Code::not_ready);
}

// The other thread leads, and buries who was forgotten, which needs the lock that releasing holds.
TEST(LettingGoTest, memory_is_let_go_of_while_another_thread_makes_progress) {
  sys::SystemClock clock;
  Late late(clock, std::chrono::minutes(10));
  std::atomic<bool> over{false};
  auto other = run::Worker::start("agent-test", [&](const run::StopToken&) {
    while (!over) {
      late.agent->progress();
      (void)late.agent->wait_notifications(std::chrono::milliseconds(1));
    }
  });
  ASSERT_TRUE(other.ok());
  late.quiesced_at = 5;
  EXPECT_TRUE(late.pool.release().ok());
  over = true;
}

// For ThreadSanitizer, and AddressSanitizer: memory goes while transfers on it are made and posted.
TEST(LettingGoTest, memory_may_go_while_transfers_on_it_are_made) {
  Pair p;
  std::atomic<bool> over{false};
  std::atomic<int> ended{0};
  auto gone = run::Worker::start("agent-test", [&](const run::StopToken&) {
    for (int round = 0; round < 100 || (ended < 100 && round < 100'000); ++round) {
      EXPECT_TRUE(p.left_pool.release().ok());
      p.left_pool = *p.left->register_region(p.left_memory);
      EXPECT_TRUE(p.right_pool.release().ok());
      EXPECT_TRUE(p.left->load_metadata(*p.right->metadata()).ok());
      p.right_pool = *p.right->register_region(p.right_memory);
      EXPECT_TRUE(p.left->load_metadata(*p.right->metadata()).ok());
    }
    over = true;
  });
  ASSERT_TRUE(gone.ok());
  while (!over) {
    const auto mine = p.left->prepare(Pair::blocks(p.left_memory, 0, 8));
    const auto theirs = p.left->prepare_remote("right", Pair::blocks(p.right_memory, 0, 8));
    if (!mine.ok() || !theirs.ok()) continue;
    for (int round = 0; round < 4; ++round) {
      auto pull = p.left->make_transfer(TransferOp::read, *mine, *theirs);
      if (!pull.ok()) {
        EXPECT_TRUE(pull.code() == Code::not_found) << pull.status().to_string();
        break;
      }
      const Status posted = pull->post();
      if (posted.ok()) {
        EXPECT_NE(pull->wait(), Outcome::none);
        ++ended;
      } else {
        EXPECT_EQ(posted.code(), Code::not_found) << posted.to_string();
      }
    }
  }
  EXPECT_GE(ended, 100) << "no transfers were made meanwhile";
}

TEST(LettingGoTest, is_used_from_many_threads_at_once) {
  Pair p;
  fill(p.right_memory, 5);
  std::atomic<int> done{0};
  {
    std::vector<run::Worker> workers;
    for (int w = 0; w < 4; ++w) {
      auto worker = run::Worker::start("agent-test", [&, w](const run::StopToken&) {
        for (std::uint32_t round = 0; round < 100; ++round) {
          const std::vector<std::uint32_t> index{static_cast<std::uint32_t>(w) * 200 + round};
          auto pull = p.left->make_transfer(TransferOp::read, p.mine(0, 1024), p.theirs(0, 1024),
                                            {.local = Selection::of(index),
                                             .remote = Selection::of(index),
                                             .notification = Bytes(3)});
          if (pull.ok() && pull->post().ok() && pull->wait() == Outcome::done) ++done;
        }
      });
      ASSERT_TRUE(worker.ok());
      workers.push_back(*std::move(worker));
    }
    std::size_t advertised = 0;
    while (advertised < 400)
      advertised += p.right->wait_notifications(std::chrono::seconds(20)).size();
  }
  EXPECT_EQ(done.load(), 400);
}

// It ended by itself before it could be asked again: what is posted then is another transfer.
TEST(LettingGoTest, one_that_is_posted_again_is_not_cancelled_for_what_it_was) {
  ManualClock clock;
  Script script;
  script.can.quiesced = backend::Quiescence::bounded;
  script.is_eager = false;
  const ScriptedAgent agent(script, {.name = "short", .clock = &clock});
  memory::SharedRegion region;
  const memory::Registration pool = Pair::pool_of(*agent, region);
  Transfer transfer = *agent->create_transfer(TransferOp::write, Pair::blocks(region, 0, 1),
                                              "short", Pair::blocks(region, 1, 1));
  ASSERT_TRUE(transfer.post().ok());
  script.on_cancel = [] { throw std::bad_alloc(); };
  EXPECT_THROW(transfer.cancel(), std::bad_alloc);
  script.active.front()->complete({});
  ASSERT_TRUE(transfer.ended());
  int asked = 0;
  script.on_cancel = [&] { ++asked; };
  ASSERT_TRUE(transfer.post().ok());
  EXPECT_EQ(asked, 0);
  script.active.front()->complete({});
  EXPECT_EQ(transfer.outcome(), Outcome::done);
}

// A backend that finds no memory to cancel one transfer is asked again, and for the others.
TEST(LettingGoTest, no_transfer_is_forgotten_where_memory_runs_out) {
  for (const auto quiesced : {backend::Quiescence::immediate, backend::Quiescence::teardown}) {
    ManualClock clock;
    Script script;
    script.can.quiesced = quiesced;
    script.is_eager = false;
    int asked = 0;
    script.on_cancel = [&] {
      if (++asked <= 2) throw std::bad_alloc();
    };
    const ScriptedAgent agent(script, {.name = "short", .clock = &clock});
    memory::SharedRegion region;
    const memory::Registration pool = Pair::pool_of(*agent, region);
    std::vector<Transfer> all;
    for (int i = 0; i < 3; ++i) {
      all.push_back(*agent->create_transfer(TransferOp::write, Pair::blocks(region, 0, 1), "short",
                                            Pair::blocks(region, 1, 1)));
      ASSERT_TRUE(all.back().post({.timeout = std::chrono::seconds(1)}).ok());
    }
    clock.advance(std::chrono::seconds(2));
    for (int i = 0; i < 3; ++i) {
      try {
        agent->progress();
      } catch (const std::bad_alloc&) {
      }
    }
    for (const Transfer& transfer : all) {
      EXPECT_EQ(transfer.outcome(), Outcome::timed_out);
      EXPECT_TRUE(transfer.ended()) << "it was not cancelled";
    }
  }
}

}  // namespace
}  // namespace towpath::agent
