// What happens at the worst moment: in the middle of letting go of memory, or of the agent. A clock
// and a backend that call back make the moment certain.
#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/agent/agent.h>
#include <towpath/agent/testing/scripted_backend.h>
#include <towpath/memory/system_region.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/clock.h>

namespace towpath::agent {
namespace {

/// Counts the looks at it; the next one calls `at_next_look` first.
class HookClock final : public Clock {
 public:
  Instant now() const noexcept override {
    ++looks;
    if (const auto hook = std::exchange(at_next_look, nullptr)) hook();
    return real_.now();
  }
  Duration since_epoch() const noexcept override { return real_.since_epoch(); }

  mutable int looks = 0;
  mutable std::function<void()> at_next_look;

 private:
  sys::SystemClock real_;
};

/// Counts the looks at it, of any thread.
class SharedClock final : public Clock {
 public:
  Instant now() const noexcept override {
    ++looks;
    return real_.now();
  }
  Duration since_epoch() const noexcept override { return real_.since_epoch(); }

  mutable std::atomic<int> looks{0};

 private:
  sys::SystemClock real_;
};

DescriptorList whole(const memory::SharedRegion& region) {
  DescriptorList list(MemoryKind::system);
  EXPECT_TRUE(list.add(Descriptor{region->descriptor().address, 4096, 0}).ok());
  return list;
}

/// Two agents; memory is registered with "eager", whose transfers are done at once, or with "late".
struct Races {
  Races() {
    late.can.quiesced = backend::Quiescence::bounded;
    late.is_eager = false;
    EXPECT_TRUE(registry.add(scripted_type("eager", eager)).ok());
    EXPECT_TRUE(registry.add(scripted_type("late", late)).ok());
    near = make("near");
    far = make("far");
    own_pool = *near->register_region(own);
  }
  std::unique_ptr<Agent> make(const std::string& name) {
    auto agent = *Agent::create({.name = name, .registry = &registry, .clock = &clock});
    EXPECT_TRUE(agent->add_backend("eager").ok());
    EXPECT_TRUE(agent->add_backend("late").ok());
    return agent;
  }
  Transfer make_transfer(const memory::SharedRegion& to) {
    auto made = near->create_transfer(TransferOp::write, whole(own), "far", whole(to));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return *std::move(made);
  }

  HookClock clock;
  Script eager, late;
  backend::Registry registry;
  memory::SharedRegion own = *memory::SystemRegion::allocate(4096);
  std::unique_ptr<Agent> near, far;
  memory::Registration own_pool;
};

// The query ends when the other thread has: with the backend's lock held, neither would.
TEST(RacesTest, a_query_that_waits_holds_up_no_progress) {
  int turns = 0;
  Races r;
  r.late.on_progress = [&] { ++turns; };
  r.late.on_query = [&] { std::thread([&] { (void)r.near->progress(); }).join(); };
  const auto answers = r.near->query("late", {});
  EXPECT_TRUE(answers.ok()) << answers.status().to_string();
  EXPECT_GT(turns, 0);
}

// It forgets the wake-up for all of them: what it does not ask now, nothing asks again.
TEST(RacesTest, progress_waits_for_every_backend_that_others_are_at) {
  sys::SystemClock clock;
  backend::Registry registry;
  std::array<Script, 3> scripts;
  std::array<std::atomic<int>, 3> turns{};
  std::atomic<bool> may_go_on{false};
  const auto agent = *Agent::create({.name = "three", .registry = &registry, .clock = &clock});
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    ASSERT_TRUE(registry.add(scripted_type(name, scripts[i])).ok());
    ASSERT_TRUE(agent->add_backend(name).ok());
    scripts[i].on_progress = [&, i] {
      if (turns[i]++ == 0 && i < 2) {
        EXPECT_TRUE(run::eventually([&] { return may_go_on.load(); }));
      }
    };
  }
  std::vector<std::thread> threads;
  for (const std::atomic<int>& first_turn : turns) {  // the third meets two that are busy
    threads.emplace_back([&] { (void)agent->progress(); });
    EXPECT_TRUE(run::eventually([&] { return first_turn == 1; }));
  }
  may_go_on = true;
  for (std::thread& thread : threads) thread.join();
  for (const std::atomic<int>& each : turns) EXPECT_EQ(each, 3);
}

// A newer metadata takes two regions away. While the first of them quiesces, a transfer on the
// other is posted: whether that one's memory has gone already, or goes next, it must be refused.
void post_while_metadata_takes_memory_away(bool moving_one_goes_first) {
  Races r;
  memory::SharedRegion low = *memory::SystemRegion::allocate(4096);
  memory::SharedRegion high = *memory::SystemRegion::allocate(4096);
  if (low->descriptor().address > high->descriptor().address) std::swap(low, high);
  const auto& moving = moving_one_goes_first ? low : high;
  const auto& resting = moving_one_goes_first ? high : low;
  auto moving_pool = *r.far->register_region(moving, {.backends = {"late"}});
  auto resting_pool = *r.far->register_region(resting, {.backends = {"eager"}});
  ASSERT_TRUE(r.near->load_metadata(*r.far->metadata()).ok());
  Transfer rests = r.make_transfer(resting);
  Transfer moves = r.make_transfer(moving);
  ASSERT_TRUE(rests.post().ok());
  ASSERT_EQ(rests.outcome(), Outcome::done);
  ASSERT_TRUE(moves.post().ok());
  ASSERT_TRUE(moving_pool.release().ok());
  ASSERT_TRUE(resting_pool.release().ok());
  Code posted = Code::ok;
  r.late.on_progress = [&] {
    if (r.late.active.empty()) return;
    posted = rests.post().code();
    r.late.active.front()->complete(error(Code::cancelled, "quiet now"));
  };
  ASSERT_TRUE(r.near->load_metadata(*r.far->metadata()).ok());
  EXPECT_EQ(moves.outcome(), Outcome::failed);
  EXPECT_EQ(posted, Code::not_found);
}

TEST(RacesTest, no_post_on_memory_that_metadata_has_just_taken_away) {
  post_while_metadata_takes_memory_away(false);
}

TEST(RacesTest, no_post_on_memory_that_metadata_is_about_to_take_away) {
  post_while_metadata_takes_memory_away(true);
}

// What is made of the transfer that has just ended is not waited for: it moves other memory.
TEST(RacesTest, memory_goes_though_the_room_of_its_transfer_is_used_again) {
  sys::SystemClock clock;
  backend::Registry registry;
  Script late, other;
  late.can.quiesced = backend::Quiescence::bounded;
  late.is_eager = false;
  std::atomic<bool> has_quiesced{false}, is_looked_away{false}, is_made{false}, is_over{false};
  late.on_progress = [&] {  // before the other's
    if (late.active.empty() || (has_quiesced.exchange(true) && !is_over)) return;
    late.active.front()->complete(error(Code::cancelled, "at last"));
  };
  other.on_progress = [&] {
    if (!has_quiesced || is_looked_away.exchange(true)) return;
    EXPECT_TRUE(run::eventually([&] { return is_made.load(); }));
  };
  ASSERT_TRUE(registry.add(scripted_type("late", late)).ok());
  ASSERT_TRUE(registry.add(scripted_type("other", other)).ok());
  const auto agent = *Agent::create({.name = "one",
                                     .registry = &registry,
                                     .clock = &clock,
                                     .quiesce_timeout = std::chrono::minutes(10)});
  ASSERT_TRUE(agent->add_backend("late").ok());
  ASSERT_TRUE(agent->add_backend("other").ok());
  const memory::SharedRegion region = *memory::SystemRegion::allocate(4096);
  const memory::SharedRegion rest = *memory::SystemRegion::allocate(4096);
  memory::Registration pool = *agent->register_region(region, {.backends = {"late"}});
  const auto rest_pool = *agent->register_region(rest, {.backends = {"late"}});
  const auto post = [&](const memory::SharedRegion& of) {
    auto made = agent->create_transfer(TransferOp::write, whole(of), "one", whole(of));
    EXPECT_TRUE(made.ok() && made->post().ok());
    return *std::move(made);
  };
  std::optional<Transfer> first = post(region);
  std::atomic<bool> is_released{false};
  std::thread releases([&] { is_released = pool.release().ok(); });
  EXPECT_TRUE(run::eventually([&] { return is_looked_away.load(); }));
  first.reset();
  const Transfer next = post(rest);
  is_made = true;
  EXPECT_TRUE(run::eventually([&] { return is_released.load(); }));
  EXPECT_EQ(next.state(), TransferState::active);
  is_over = true;
  (void)agent->progress();
  releases.join();
}

TEST(RacesTest, no_post_when_the_agent_ends_meanwhile) {
  Races r;
  const auto region = *memory::SystemRegion::allocate(4096);
  const auto pool = *r.far->register_region(region, {.backends = {"eager"}});
  ASSERT_TRUE(r.near->load_metadata(*r.far->metadata()).ok());
  Transfer transfer = r.make_transfer(region);
  r.clock.at_next_look = [&] { r.near.reset(); };
  EXPECT_EQ(transfer.post().code(), Code::not_ready);
  EXPECT_EQ(transfer.state(), TransferState::prepared);
}

// The message would travel over another backend than the bytes, and that one is asked first.
TEST(RacesTest, no_room_is_kept_for_a_message_when_the_agent_ends_meanwhile) {
  Races r;
  const auto region = *memory::SystemRegion::allocate(4096);
  const auto pool = *r.far->register_region(region, {.backends = {"late"}});
  ASSERT_TRUE(r.near->load_metadata(*r.far->metadata()).ok());
  Transfer transfer = *r.near->create_transfer(TransferOp::write, whole(r.own), "far",
                                               whole(region), {.notification = to_bytes("word")});
  r.clock.at_next_look = [&] { r.near.reset(); };
  EXPECT_EQ(transfer.post().code(), Code::not_ready);
}

TEST(RacesTest, no_look_at_the_clock_by_a_handle_that_outlives_its_agent) {
  Races r;
  const auto region = *memory::SystemRegion::allocate(4096);
  const auto pool = *r.far->register_region(region, {.backends = {"eager"}});
  ASSERT_TRUE(r.near->load_metadata(*r.far->metadata()).ok());
  Transfer transfer = r.make_transfer(region);
  r.near.reset();
  const int looks = r.clock.looks;
  EXPECT_EQ(transfer.wait(std::chrono::milliseconds(1)), Outcome::none);
  EXPECT_EQ(transfer.post().code(), Code::not_ready);
  EXPECT_EQ(r.clock.looks, looks);
}

/// An agent with a transfer that never comes to rest.
struct Stuck {
  Stuck() {
    script.can.quiesced = backend::Quiescence::none;
    script.is_eager = false;
    EXPECT_TRUE(registry.add(scripted_type("stuck", script)).ok());
    agent = *Agent::create({.name = "one", .registry = &registry, .clock = &clock});
    EXPECT_TRUE(agent->add_backend("stuck").ok());
    pool = *agent->register_region(region);
    transfer = *agent->create_transfer(TransferOp::write, whole(region), "one", whole(region));
    EXPECT_TRUE(transfer.post().ok());
  }
  SharedClock clock;
  Script script;
  backend::Registry registry;
  memory::SharedRegion region = *memory::SystemRegion::allocate(4096);
  std::unique_ptr<Agent> agent;
  memory::Registration pool;
  Transfer transfer;
};

/// One that stays alive, as it does; a leak checker finds it here.
Stuck& make_stuck() {
  static auto& all = *new std::vector<Stuck*>;
  return *all.emplace_back(new Stuck);
}

// The clock may go when the agent has gone, as that of a standard::Node does.
TEST(RacesTest, a_wait_comes_back_before_its_agent_has_ended) {
  Stuck& s = make_stuck();
  static std::atomic<bool> waits;
  waits = false;
  s.script.on_progress = [] { waits = true; };
  Outcome outcome = Outcome::done;
  std::thread waiter([&] { outcome = s.transfer.wait(std::chrono::seconds(2)); });
  EXPECT_TRUE(run::eventually([] { return waits.load(); }));
  s.agent.reset();
  const int looks = s.clock.looks;
  waiter.join();
  EXPECT_EQ(s.clock.looks, looks);
  EXPECT_EQ(outcome, Outcome::none);
}

// Its backend has the clock, too, and would end the transfer by it.
TEST(RacesTest, a_transfer_that_never_came_to_rest_is_not_cancelled_after_its_agent) {
  Stuck& s = make_stuck();
  s.agent.reset();
  s.script.on_cancel = [&active = s.script.active] {
    if (!active.empty()) active.front()->complete(error(Code::cancelled, ""));
  };
  const int looks = s.clock.looks;
  s.transfer.cancel();
  EXPECT_EQ(s.transfer.state(), TransferState::draining);
  s.transfer = Transfer();
  EXPECT_EQ(s.script.active.size(), 1U);
  EXPECT_EQ(s.clock.looks, looks);
}

}  // namespace
}  // namespace towpath::agent
