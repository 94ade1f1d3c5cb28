// The protocols over shared words, under every order of their steps, or many seeded ones.
//
// Each step (an operation on a word, a sleep, a wake) is one turn; a scheduler picks who is next.
// Sleepers are woken by wake_all() alone, so a lost wake-up is a scheduler with nobody to pick, and
// a spin that only another turn can end does not exist: waits doze at once. The orders tried are
// sequentially consistent ones.
#include <algorithm>
#include <climits>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include <towpath/shmem/barrier.h>
#include <towpath/shmem/event_count.h>
#include <towpath/shmem/queue_lock.h>

namespace towpath::shmem {
namespace {

/// Picks among `choices` (at least 1).
using Pick = std::function<std::size_t(std::size_t choices)>;

struct Order {
  Pick pick;
  /// How often a turn may go to another while the last one could go on.
  int preemptions = INT_MAX;
};

/// One run: actors in threads, of which one moves at a time.
class Schedule {
 public:
  explicit Schedule(const Order& order) : pick_(order.pick), preemptions_(order.preemptions) {}

  /// Runs all to the end. False: some sleep, and nobody is left to wake them.
  bool run(const std::vector<std::function<void()>>& actors) {
    sleeping_on_.assign(actors.size(), nullptr);
    done_.assign(actors.size(), false);
    std::vector<std::thread> threads;
    for (std::size_t actor = 0; actor < actors.size(); ++actor)
      threads.emplace_back([&, actor] {
        self = actor;
        current = this;
        wait_for_turn(actor);
        try {
          actors[actor]();
        } catch (const Stuck&) {
        }
        const std::lock_guard lock(mutex_);
        done_[actor] = true;
        choose();
      });
    {
      const std::lock_guard lock(mutex_);
      choose();
    }
    for (std::thread& thread : threads) thread.join();
    return !stuck_;
  }

  static void step() { current->yield_turn(); }
  static void sleep_on(const void* word) {
    {
      const std::lock_guard lock(current->mutex_);
      current->sleeping_on_[self] = word;
    }
    current->yield_turn();
  }
  static void wake(const void* word) {
    const std::lock_guard lock(current->mutex_);
    for (const void*& sleeping : current->sleeping_on_)
      if (sleeping == word) sleeping = nullptr;
  }

 private:
  struct Stuck {};
  static constexpr std::size_t kNobody = ~std::size_t{0};

  void yield_turn() {
    {
      const std::lock_guard lock(mutex_);
      choose();
    }
    wait_for_turn(self);
  }
  void wait_for_turn(std::size_t actor) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == actor || stuck_; });
    if (stuck_) throw Stuck();
  }
  void choose() {
    std::vector<std::size_t> able;
    bool all_done = true;
    for (std::size_t actor = 0; actor < done_.size(); ++actor) {
      all_done = all_done && done_[actor];
      if (!done_[actor] && sleeping_on_[actor] == nullptr) able.push_back(actor);
    }
    turn_ = able.empty() ? kNobody : next_of(able);
    if (able.empty() && !all_done) stuck_ = true;
    changed_.notify_all();
  }

  std::size_t next_of(const std::vector<std::size_t>& able) {
    const bool can_go_on = std::ranges::count(able, turn_) != 0;
    if (can_go_on && preemptions_ == 0) return turn_;
    const std::size_t next = able[pick_(able.size())];
    if (can_go_on && next != turn_) --preemptions_;
    return next;
  }

  static thread_local std::size_t self;
  static thread_local Schedule* current;

  Pick pick_;
  int preemptions_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const void*> sleeping_on_;
  std::vector<bool> done_;
  std::size_t turn_ = kNobody;
  bool stuck_ = false;
};
thread_local std::size_t Schedule::self = 0;
thread_local Schedule* Schedule::current = nullptr;

/// A word every operation on which is a turn.
template <typename T>
class SteppedWord {
 public:
  T load(std::memory_order = std::memory_order_seq_cst) const {
    Schedule::step();
    return value_;
  }
  void store(T value, std::memory_order = std::memory_order_seq_cst) {
    Schedule::step();
    value_ = value;
  }
  T exchange(T value) {
    Schedule::step();
    return std::exchange(value_, value);
  }
  T fetch_add(T value, std::memory_order = std::memory_order_seq_cst) {
    Schedule::step();
    return std::exchange(value_, value_ + value);
  }
  T fetch_sub(T value) { return fetch_add(0 - value); }
  T fetch_or(T bits) {
    Schedule::step();
    return std::exchange(value_, value_ | bits);
  }
  T fetch_and(T bits) {
    Schedule::step();
    return std::exchange(value_, value_ & bits);
  }
  bool compare_exchange_strong(T& expected, T desired) {
    Schedule::step();
    if (value_ == expected) {
      value_ = desired;
      return true;
    }
    expected = value_;
    return false;
  }
  /// Without a turn, for the kernel's own comparison, for checks, and for what was before.
  T peek() const { return value_; }
  void begin_with(T value) { value_ = value; }

 private:
  T value_ = 0;
};

struct SteppedWords {
  using Word32 = SteppedWord<std::uint32_t>;
  using Word64 = SteppedWord<std::uint64_t>;
  static void park(const Word32& word, std::uint32_t seen, run::Deadline) {
    Schedule::step();
    if (word.peek() == seen) Schedule::sleep_on(&word);
  }
  static void wake_all(const Word32& word) {
    Schedule::step();
    Schedule::wake(&word);
  }
};

/// Tries every order of turns, depth first: `attempt` runs once for each and must not fail. Answers
/// how many there are.
int try_all(const std::function<void(const Pick&)>& attempt) {
  constexpr int kLimit = 100'000;  // a protocol that became larger wants a closer look
  std::vector<std::pair<std::size_t, std::size_t>> path;  // chosen, of how many
  for (int tried = 1;; ++tried) {
    std::size_t depth = 0;
    attempt([&](std::size_t choices) {
      if (depth == path.size()) path.emplace_back(0, choices);
      return path[depth++].first;
    });
    while (!path.empty() && path.back().first + 1 == path.back().second) path.pop_back();
    if (path.empty() || tried == kLimit || ::testing::Test::HasFailure()) return tried;
    ++path.back().first;
  }
}

/// Tries `count` seeded orders.
void try_some(int count, const std::function<void(const Pick&)>& attempt) {
  const auto seed = static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed());
  for (int index = 0; index < count && !::testing::Test::HasFailure(); ++index) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", order " << index);
    std::mt19937 random(seed * 1000 + static_cast<unsigned>(index));
    attempt([&](std::size_t choices) { return random() % choices; });
  }
}

/// Who waits for a write, and who writes and rings: World::wait() and nudge() after an atomic.
void signal_once(const Pick& pick) {
  BasicEventCount<SteppedWords> event_count;
  SteppedWord<std::uint32_t> data, signal;
  std::uint32_t seen = 0;
  const bool ended = Schedule({pick}).run({
      [&] {
        while (!event_count.doze([&] { return signal.load() == 1; }, run::Deadline::never())) {
        }
        seen = data.load();
      },
      [&] {
        data.store(42);
        signal.exchange(1);
        event_count.ring_if_needed();
      },
  });
  EXPECT_TRUE(ended) << "the waiter was never woken";
  EXPECT_EQ(seen, 42u);
}

TEST(InterleavingTest, no_order_loses_a_signal) {
  const int orders = try_all(signal_once);
  RecordProperty("orders", orders);
  EXPECT_GT(orders, 100);
}

using SteppedBarrier = BasicBarrier<SteppedWords>;

void meet(SteppedBarrier& bootstrap, std::uint64_t digest, std::uint32_t members, bool& differed) {
  const std::uint32_t round = bootstrap.round();
  if (!bootstrap.arrive(digest, members))
    while (!bootstrap.event_count().doze([&] { return bootstrap.is_over(round); },
                                         run::Deadline::never())) {
    }
  differed = bootstrap.differed_in(round);
}

/// `digests[pe]`: the calls that a PE makes.
void gather_all(const Order& order, const std::vector<std::vector<std::uint64_t>>& digests) {
  SteppedBarrier bootstrap;
  std::vector<std::size_t> rounds(digests.size(), 0);
  std::vector<std::function<void()>> actors;
  for (std::size_t pe = 0; pe < digests.size(); ++pe)
    actors.emplace_back([&, pe] {
      for (std::size_t round = 0; round < digests[pe].size(); ++round) {
        rounds[pe] = round + 1;
        bool differed = false;
        meet(bootstrap, digests[pe][round], static_cast<std::uint32_t>(digests.size()), differed);
        bool alike = true;
        for (std::size_t other = 0; other < digests.size(); ++other) {
          EXPECT_GT(rounds[other], round) << "left before all had come";
          alike = alike && digests[other][round] == digests[pe][round];
        }
        EXPECT_EQ(differed, !alike);
      }
    });
  EXPECT_TRUE(Schedule(order).run(actors)) << "somebody was never woken";
}

TEST(InterleavingTest, no_order_with_four_preemptions_breaks_a_barrier_of_two) {
  const int orders = try_all([](const auto& pick) { gather_all({pick, 4}, {{7}, {7}}); });
  RecordProperty("orders", orders);
  EXPECT_GT(orders, 100);
}

TEST(InterleavingTest, many_orders_of_three_pes_and_three_rounds_hold) {
  try_some(400, [](const auto& pick) {
    gather_all({pick}, {{7, 8, 9}, {7, 1, 9}, {7, 8, 9}});  // the second round differs
  });
}

class SteppedNodes {
 public:
  explicit SteppedNodes(std::size_t pes) : nodes_(pes), event_counts_(pes) {}

  SteppedWord<std::uint32_t>& tail() { return tail_; }
  SteppedWord<std::uint32_t>& node(std::uint32_t pe) { return nodes_[pe]; }
  void nudge(std::uint32_t pe) { event_counts_[pe].ring_if_needed(); }
  /// Its owner never comes back; those that wait for it are woken.
  void kill(std::uint32_t pe) {
    dead_ = pe;
    for (auto& event_count : event_counts_) event_count.ring();
  }
  /// Before the begin: it took the lock, and is dead.
  void die_holding(std::uint32_t pe) {
    nodes_[pe].begin_with(1);
    tail_.begin_with(pe + 1);
    dead_ = pe;
  }
  static Status broken(std::uint32_t) { return error(Code::peer_lost, "broken"); }

  /// The lock's view of one PE: waits are on its own bell.
  struct Of {
    SteppedNodes& all;
    std::uint32_t me;
    auto& tail() { return all.tail(); }
    auto& node(std::uint32_t pe) { return all.node(pe); }
    void nudge(std::uint32_t pe) { all.nudge(pe); }
    std::uint32_t pes() const { return static_cast<std::uint32_t>(all.nodes_.size()); }
    bool has_ended(std::uint32_t pe) const { return pe == all.dead_; }
    Status broken(std::uint32_t pe) { return SteppedNodes::broken(pe); }
    template <typename Ready>
    Status wait(const Ready& ready, std::uint32_t pe) {
      const auto is_dead = [&] { return pe == all.dead_; };
      while (!all.event_counts_[me].doze([&] { return ready() || is_dead(); },
                                         run::Deadline::never())) {
      }
      return ready() ? Status() : broken(pe);
    }
  };

 private:
  SteppedWord<std::uint32_t> tail_;
  std::uint32_t dead_ = kAnyPe - 1;
  std::vector<SteppedWord<std::uint32_t>> nodes_;
  std::vector<BasicEventCount<SteppedWords>> event_counts_;
};

void lock_and_release(const Order& order, std::uint32_t pes, int rounds) {
  SteppedNodes nodes(pes);
  int inside = 0, entered = 0;
  std::vector<std::function<void()>> actors;
  for (std::uint32_t pe = 0; pe < pes; ++pe)
    actors.emplace_back([&, pe] {
      SteppedNodes::Of mine{nodes, pe};
      QueueLock lock(mine, pe);
      for (int round = 0; round < rounds; ++round) {
        EXPECT_TRUE(lock.acquire().ok());
        EXPECT_EQ(++inside, 1) << "two inside";
        Schedule::step();
        --inside;
        ++entered;
        EXPECT_TRUE(lock.release().ok());
      }
    });
  EXPECT_TRUE(Schedule(order).run(actors)) << "somebody was never woken";
  EXPECT_EQ(entered, static_cast<int>(pes) * rounds);
}

TEST(InterleavingTest, no_order_with_four_preemptions_lets_two_into_a_lock) {
  const int orders = try_all([](const auto& pick) { lock_and_release({pick, 4}, 2, 1); });
  RecordProperty("orders", orders);
  EXPECT_GT(orders, 100);
}

/// Two threads of PE 0 try, and PE 1 waits.
void try_by_two_threads(const Order& order) {
  SteppedNodes nodes(2);
  int inside = 0;
  const auto enter_and_leave = [&](auto& lock) {
    EXPECT_EQ(++inside, 1) << "two inside";
    Schedule::step();
    --inside;
    EXPECT_TRUE(lock.release().ok());
  };
  const auto try_twice = [&] {
    SteppedNodes::Of mine{nodes, 0};
    QueueLock lock(mine, 0);
    for (int round = 0; round < 2; ++round)
      if (*lock.try_acquire()) enter_and_leave(lock);
  };
  const auto wait = [&] {
    SteppedNodes::Of mine{nodes, 1};
    QueueLock lock(mine, 1);
    EXPECT_TRUE(lock.acquire().ok());
    enter_and_leave(lock);
  };
  EXPECT_TRUE(Schedule(order).run({try_twice, try_twice, wait})) << "somebody was never woken";
}

TEST(InterleavingTest, many_orders_of_two_threads_of_a_pe_that_try_a_lock_hold) {
  try_some(400, [](const auto& pick) { try_by_two_threads({pick}); });
}

/// PE 0 dies with the lock. Whoever comes afterwards, or waits, must hear of it.
void die_with_lock(const Order& order, std::uint32_t pes) {
  SteppedNodes nodes(pes);
  bool died = false;
  std::vector<std::function<void()>> actors;
  actors.emplace_back([&] {
    SteppedNodes::Of mine{nodes, 0};
    EXPECT_TRUE(QueueLock(mine, 0).acquire().ok());
    died = true;
    nodes.kill(0);
  });
  for (std::uint32_t pe = 1; pe < pes; ++pe)
    actors.emplace_back([&, pe] {
      SteppedNodes::Of mine{nodes, pe};
      QueueLock lock(mine, pe);
      for (bool reported = false; !reported;) {
        reported = !lock.acquire().ok();
        EXPECT_EQ(reported, died);
        EXPECT_TRUE(reported || lock.release().ok() || died);
      }
    });
  EXPECT_TRUE(Schedule(order).run(actors)) << "somebody was never reported";
}

TEST(InterleavingTest, many_orders_of_a_holder_that_dies_are_reported_to_all) {
  try_some(400, [](const auto& pick) { die_with_lock({pick}, 3); });
}

/// PE 0 has died with the lock, and the others come. Whoever breaks it is interrupted at any step:
/// who comes then may stand behind one that goes away alive, so it must find the mark in the tail.
/// One may only try: that lets it go while the other one waits, or breaks the lock for both.
void come_to_lock_of_dead(const Order& order, bool one_tries) {
  SteppedNodes nodes(3);
  nodes.die_holding(0);
  std::vector<std::function<void()>> actors;
  for (std::uint32_t pe = 1; pe < 3; ++pe)
    actors.emplace_back([&, pe] {
      SteppedNodes::Of mine{nodes, pe};
      QueueLock lock(mine, pe);
      if (pe == 1 && one_tries) {
        const auto tried = lock.try_acquire();
        EXPECT_FALSE(tried.ok() && *tried);
      } else {
        EXPECT_FALSE(lock.acquire().ok());
      }
    });
  EXPECT_TRUE(Schedule(order).run(actors)) << "somebody was never reported";
}

TEST(InterleavingTest, no_order_with_two_preemptions_hides_a_broken_lock) {
  for (const bool one_tries : {false, true}) {
    const int orders = try_all([&](const auto& pick) {
      come_to_lock_of_dead({pick, 2}, one_tries);
    });
    RecordProperty(one_tries ? "orders_with_try" : "orders", orders);
    EXPECT_GT(orders, 50);
  }
}

TEST(InterleavingTest, many_orders_of_three_pes_on_a_lock_hold) {
  try_some(400, [](const auto& pick) { lock_and_release({pick}, 3, 2); });
}

}  // namespace
}  // namespace towpath::shmem
