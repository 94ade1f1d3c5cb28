// EventSource and Awaiting: what an event loop sees of an agent, and coroutines in one.
#include <atomic>
#include <coroutine>
#include <exception>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include <towpath/agent/awaiting.h>
#include <towpath/agent/testing/agent_pair.h>
#include <towpath/agent/testing/scripted_backend.h>
#include <towpath/memory/system_region.h>
#include <towpath/run/poller.h>
#include <towpath/sys/clock.h>
#include <towpath/telemetry/log.h>

namespace towpath::agent {
namespace {

using std::chrono::milliseconds;

bool is_readable(int fd, int within_ms = 0) {
  pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, within_ms) == 1;
}
constexpr int kWatchdog = 30'000;

/// An agent, its own peer over "talk", whose transfers end when the test says so.
struct Scene {
  Scene() {
    script.is_eager = false;
    script.can.quiesced = backend::Quiescence::immediate;
    script.can.notifications = backend::Notifications::reliable;
    EXPECT_TRUE(registry.add(scripted_type("talk", script)).ok());
    near = make("near");
    far = make("far");
    memory = *memory::SystemRegion::allocate(4096);
    far_memory = *memory::SystemRegion::allocate(4096);
    pool = *near->register_region(memory);
    far_pool = *far->register_region(far_memory);
    EXPECT_TRUE(near->load_metadata(*far->metadata()).ok());
  }
  std::unique_ptr<Agent> make(const std::string& name) {
    auto agent = Agent::create({.name = name, .registry = &registry, .clock = &clock, .log = &log});
    EXPECT_TRUE((*agent)->add_backend("talk").ok());
    return *std::move(agent);
  }
  static DescriptorList whole(const memory::SharedRegion& region) {
    DescriptorList list(MemoryKind::system);
    EXPECT_TRUE(list.add(Descriptor{region->descriptor().address, 4096, 0}).ok());
    return list;
  }
  Transfer posted(Duration timeout = std::chrono::hours(1)) {
    auto made = near->create_transfer(TransferOp::write, whole(memory), "far", whole(far_memory));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    EXPECT_TRUE(made->post({.timeout = timeout}).ok());
    return *std::move(made);
  }
  /// As a backend reports it, in a call of another thread than the loop's.
  void end_one_elsewhere() {
    script.on_progress = [this] {
      script.on_progress = nullptr;
      script.active.front()->complete({});
    };
    std::thread([this] { (void)near->progress(); }).join();
  }

  sys::SystemClock clock;
  telemetry::CollectingSink log;
  Script script;
  backend::Registry registry;
  memory::SharedRegion memory, far_memory;
  std::unique_ptr<Agent> near, far;
  memory::Registration pool, far_pool;
};

TEST(EventSourceTest, is_readable_for_an_end_that_another_thread_brought_about) {
  Scene s;
  const auto source = EventSource::open(*s.near).value();
  Transfer transfer = s.posted();
  source->progress();
  EXPECT_FALSE(is_readable(source->fd()));
  s.end_one_elsewhere();
  EXPECT_FALSE(is_readable(s.near->wait_fd())) << "of which the agent's own descriptor has nothing";
  EXPECT_TRUE(is_readable(source->fd()));
  source->progress();
  EXPECT_TRUE(transfer.ended());
  EXPECT_FALSE(is_readable(source->fd()));
}

TEST(EventSourceTest, every_source_of_an_agent_is_woken_and_those_that_are_gone_are_not) {
  Scene s;
  const auto one = EventSource::open(*s.near).value();
  const auto other = EventSource::open(*s.near).value();
  (void)EventSource::open(*s.near).value();
  Transfer transfer = s.posted();
  s.end_one_elsewhere();
  one->progress();
  EXPECT_FALSE(is_readable(one->fd()));
  EXPECT_TRUE(is_readable(other->fd())) << "one loop's look takes nothing from another";
}

TEST(EventSourceTest, is_readable_at_a_deadline) {
  Scene s;
  const auto source = EventSource::open(*s.near).value();
  Transfer transfer = s.posted(milliseconds(20));
  source->progress();
  while (!transfer.ended()) {
    ASSERT_TRUE(is_readable(source->fd(), kWatchdog));
    source->progress();
  }
  EXPECT_EQ(transfer.outcome(), Outcome::timed_out);
  EXPECT_FALSE(is_readable(source->fd()));
}

TEST(EventSourceTest, is_readable_for_a_first_look) {
  Scene s;
  const auto source = EventSource::open(*s.near).value();
  source->wake();
  EXPECT_TRUE(is_readable(source->fd()));
  source->progress();
  EXPECT_FALSE(is_readable(source->fd()));
}

TEST(EventSourceTest, watches_backends_that_are_added_later_and_outlives_the_agent) {
  const auto sign = run::Waker::open().value();
  Scene s;
  Script late;
  late.wait_fd = sign->fd();
  ASSERT_TRUE(s.registry.add(scripted_type("late", late)).ok());
  const auto source = EventSource::open(*s.near).value();
  ASSERT_TRUE(s.near->add_backend("late").ok());
  EXPECT_FALSE(is_readable(source->fd()));
  sign->wake();
  EXPECT_TRUE(is_readable(source->fd()));
  EXPECT_FALSE(source->is_over());
  s.pool = {};
  s.near = nullptr;
  EXPECT_TRUE(is_readable(source->fd()));
  EXPECT_TRUE(source->is_over());
  source->progress();
  EXPECT_FALSE(is_readable(source->fd())) << "a backend of nobody's, which has a sign";
}

TEST(EventSourceTest, is_quiet_after_the_agent_s_end_whenever_that_was) {
  Scene s;
  const auto source = EventSource::open(*s.near).value();
  Transfer transfer = s.posted(milliseconds(20));
  transfer.cancel();
  source->progress();
  s.pool = {};
  s.near = nullptr;
  source->progress();
  EXPECT_FALSE(is_readable(source->fd(), 200)) << "at a deadline that nobody waits for";
}

TEST(EventSourceTest, misses_no_end_however_the_threads_meet) {
  constexpr int kRounds = 10'000;
  Scene s;
  const auto source = EventSource::open(*s.near).value();
  std::atomic<Transfer*> next{nullptr};
  std::atomic<bool> is_done{false};
  std::thread ender([&] {
    while (!is_done.load()) {
      if (Transfer* const transfer = next.exchange(nullptr)) transfer->cancel();
    }
  });
  bool all = true;
  for (int i = 0; i < kRounds && all; ++i) {
    Transfer transfer = s.posted();
    source->forget();
    next.store(&transfer);
    for (int turn = i % 3; turn > 0; --turn) source->progress();
    while (!transfer.ended() && all) {
      all = is_readable(source->fd(), kWatchdog);
      source->progress();
    }
    while (next.load() != nullptr) std::this_thread::yield();
  }
  EXPECT_TRUE(all);
  is_done.store(true);
  ender.join();
}

// ---- coroutines

class PollerLoop final : public EventLoop {
 public:
  Status watch(int fd, std::function<void()> on_readable) override {
    callbacks_[static_cast<std::uint64_t>(fd)] = std::move(on_readable);
    return poller_.add(fd, static_cast<std::uint64_t>(fd));
  }
  void unwatch(int fd) override {
    (void)poller_.remove(fd);
    callbacks_.erase(static_cast<std::uint64_t>(fd));
  }
  bool run_until(const std::function<bool()>& is_done) {
    while (!is_done()) {
      const auto events = poller_.wait(milliseconds(kWatchdog));
      if (events.empty()) return false;
      ++turns;
      callbacks_.at(events.front().tag)();
    }
    return true;
  }
  /// Whether nothing is left to be called.
  bool is_idle() { return poller_.wait(Duration(0)).empty(); }
  int turns = 0;

 private:
  run::Poller poller_ = run::Poller::open().value();
  std::map<std::uint64_t, std::function<void()>> callbacks_;
};

/// Starts at once, and may be destroyed by its handle while it waits.
struct Coroutine {
  struct promise_type {
    Coroutine get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

Coroutine await_end(Awaiting& awaiting, Transfer& transfer, std::optional<Status>& result) {
  result = co_await awaiting.ended(transfer);
}

struct Heard {
  std::vector<std::string> messages;
  Status why;
  int finished = 0;
};

/// Until "last" comes, or the agent ends.
Coroutine await_messages(Awaiting& awaiting, Heard& heard) {
  bool is_last = false;
  while (!is_last && heard.why.ok()) {
    auto messages = co_await awaiting.notifications();
    heard.why = messages.status();
    if (!messages.ok()) break;
    for (const Notification& one : *messages) heard.messages.emplace_back(as_text(one.message));
    is_last = heard.messages.back() == "last";
  }
  ++heard.finished;
}

struct CoroutineScene : Scene {
  PollerLoop loop;
  std::unique_ptr<Awaiting> awaiting = Awaiting::open(*near, loop).value();
};

TEST(AwaitingTest, coroutines_go_on_when_their_transfers_have_ended) {
  CoroutineScene s;
  Transfer first = s.posted();
  Transfer second = s.posted();
  std::optional<Status> one, other, again;
  await_end(*s.awaiting, first, one);
  await_end(*s.awaiting, second, other);
  EXPECT_FALSE(one || other);
  second.cancel();
  ASSERT_TRUE(s.loop.run_until([&] { return other.has_value(); }));
  EXPECT_EQ(other->code(), Code::cancelled);
  EXPECT_FALSE(one);
  s.end_one_elsewhere();
  ASSERT_TRUE(s.loop.run_until([&] { return one.has_value(); }));
  EXPECT_TRUE(one->ok());
  await_end(*s.awaiting, first, again);
  EXPECT_TRUE(again.has_value()) << "an ended one is not waited for";
}

TEST(AwaitingTest, what_was_not_posted_is_not_waited_for) {
  CoroutineScene s;
  Transfer transfer = *s.near->create_transfer(TransferOp::write, Scene::whole(s.memory), "far",
                                               Scene::whole(s.far_memory));
  std::optional<Status> result;
  await_end(*s.awaiting, transfer, result);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->code(), Code::not_ready);
}

TEST(AwaitingTest, a_coroutine_that_is_destroyed_while_it_waits_is_forgotten) {
  CoroutineScene s;
  Transfer first = s.posted();
  Transfer second = s.posted();
  std::optional<Status> one, other;
  const Coroutine gone = await_end(*s.awaiting, first, one);
  await_end(*s.awaiting, second, other);
  gone.handle.destroy();
  first.cancel();
  second.cancel();
  ASSERT_TRUE(s.loop.run_until([&] { return other.has_value(); }));
  EXPECT_FALSE(one);
}

/// Throws when its transfer has ended, and is to be destroyed then.
struct Thrower {
  struct promise_type : Coroutine::promise_type {
    Thrower get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    void unhandled_exception() { std::rethrow_exception(std::current_exception()); }
  };
  std::coroutine_handle<promise_type> handle;
};

Thrower throw_at_end(Awaiting& awaiting, Transfer& transfer) {
  (void)co_await awaiting.ended(transfer);
  (void)std::vector<int>().at(0);
}

TEST(AwaitingTest, a_coroutine_that_throws_takes_no_other_with_it) {
  CoroutineScene s;
  Transfer first = s.posted();
  Transfer second = s.posted();
  std::optional<Status> other;
  const Thrower thrower = throw_at_end(*s.awaiting, first);
  await_end(*s.awaiting, second, other);
  first.cancel();
  second.cancel();
  EXPECT_THROW((void)s.loop.run_until([] { return false; }), std::out_of_range);
  thrower.handle.destroy();
  EXPECT_TRUE(s.loop.run_until([&] { return other.has_value(); }));
}

TEST(AwaitingTest, the_agent_s_end_ends_what_awaits_it) {
  CoroutineScene s;
  Transfer transfer = s.posted();
  std::optional<Status> result;
  Heard heard;
  await_end(*s.awaiting, transfer, result);
  await_messages(*s.awaiting, heard);
  s.pool = {};
  s.near = nullptr;
  ASSERT_TRUE(s.loop.run_until([&] { return result && heard.finished == 1; }));
  EXPECT_EQ(result->code(), Code::cancelled);
  EXPECT_EQ(heard.why.code(), Code::not_ready);
}

TEST(AwaitingTest, messages_are_given_to_one_of_those_that_wait) {
  Pair pair;
  PollerLoop loop;
  const auto left = Awaiting::open(*pair.left, loop).value();
  const auto right = Awaiting::open(*pair.right, loop).value();
  Heard heard;
  const auto send = [&](const std::string& message) {
    EXPECT_TRUE(pair.right->notify("left", as_bytes(message)).ok());
  };
  send("0");
  await_messages(*left, heard);
  await_messages(*left, heard);
  for (std::size_t i = 1; i <= 20; ++i) {
    send(std::to_string(i));
    if (i % 3 == 0) {
      ASSERT_TRUE(loop.run_until([&] { return heard.messages.size() == i + 1; }));
    }
  }
  for (int finished = 1; finished <= 2; ++finished) {
    send("last");
    ASSERT_TRUE(loop.run_until([&] { return heard.finished == finished; }));
  }
  ASSERT_EQ(heard.messages.size(), 23U);
  for (std::size_t i = 0; i <= 20; ++i) EXPECT_EQ(heard.messages[i], std::to_string(i));
}

/// Answers what it hears, and runs the loop itself until `other` has heard something.
Coroutine await_and_run(Awaiting& awaiting, PollerLoop& loop, Pair& pair, const Heard& other,
                        bool& is_done) {
  (void)co_await awaiting.notifications();
  EXPECT_TRUE(pair.right->notify("left", as_bytes("last")).ok());
  is_done = loop.run_until([&] { return other.finished == 1; });
}

TEST(AwaitingTest, a_coroutine_may_run_the_loop) {
  Pair pair;
  PollerLoop loop;
  const auto left = Awaiting::open(*pair.left, loop).value();
  const auto right = Awaiting::open(*pair.right, loop).value();
  Heard heard;
  bool is_done = false;
  await_and_run(*left, loop, pair, heard, is_done);
  await_messages(*left, heard);
  EXPECT_TRUE(pair.right->notify("left", as_bytes("first")).ok());
  ASSERT_TRUE(loop.run_until([&] { return is_done; }));
  EXPECT_EQ(heard.messages, std::vector<std::string>{"last"});
}

TEST(AwaitingTest, waiting_costs_no_turns) {
  CoroutineScene s;
  Transfer transfer = s.posted();
  std::optional<Status> result;
  await_end(*s.awaiting, transfer, result);
  for (int i = 0; i < 10 && !s.loop.is_idle(); ++i)
    (void)s.loop.run_until([&] { return s.loop.turns > i; });
  EXPECT_TRUE(s.loop.is_idle());
  EXPECT_LE(s.loop.turns, 3);
  transfer.cancel();
  ASSERT_TRUE(s.loop.run_until([&] { return result.has_value(); }));
}

}  // namespace
}  // namespace towpath::agent
