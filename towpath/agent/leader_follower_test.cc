#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/agent/leader_follower.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/clock.h>

namespace towpath::agent {
namespace {

using run::eventually;

/// A room whose sleepers wake up when they are woken, and never by themselves: a lost wake-up
/// hangs.
struct Room {
  Room() { EXPECT_TRUE(poller.add(work->fd(), 0).ok()); }

  sys::SystemClock clock;
  run::Poller poller = run::Poller::open().value();
  std::unique_ptr<run::Waker> work = run::Waker::open().value();
  std::unique_ptr<LeaderFollower> room =
      LeaderFollower::open(
          {.poller = poller, .clock = clock, .longest_sleep = std::chrono::hours(1)})
          .value();
  std::atomic<int> done{0};

  /// Waits until `done` is so high. Its progress clears the poller, and does nothing else.
  void wait_for(int count) {
    room->wait(
        {std::chrono::hours(1)}, [&] { return done.load() >= count; },
        [&] {
          work->clear();
          return false;
        });
  }
  /// What a thread does that has brought something about; then it makes progress on and on.
  void advance() {
    done.fetch_add(1);
    room->note_change();
    room->notify();
    work->clear();
  }
};

TEST(LeaderFollowerTest, leader_is_woken_although_others_make_progress_at_once) {
  constexpr int kRounds = 20'000;
  Room room;
  std::atomic<int> seen{0};
  std::thread leader([&] {
    for (int i = 1; i <= kRounds; ++i) {
      room.wait_for(i);
      seen.store(i);
    }
  });
  bool all = true;
  for (int i = 1; i <= kRounds && all; ++i) {
    room.advance();
    all = eventually([&] { return seen.load() >= i; });
  }
  EXPECT_TRUE(all) << "round " << seen.load() + 1 << " of the leader was never woken";
  for (; !all && seen.load() < kRounds; std::this_thread::yield()) room.advance();
  leader.join();
}

TEST(LeaderFollowerTest, followers_are_woken_and_one_of_them_leads_next) {
  Room room;
  std::atomic<int> gone{0};
  std::vector<std::thread> waiters;
  for (int i = 1; i <= 4; ++i) {
    waiters.emplace_back([&, i] {
      room.wait_for(i);
      gone.fetch_add(1);
    });
  }
  bool all = true;
  for (int i = 1; i <= 4; ++i) {
    room.advance();
    all &= eventually([&] { return gone.load() >= i; });
  }
  EXPECT_TRUE(all) << gone.load() << " of 4 were woken";
  while (gone.load() < 4) room.room->wake();
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(LeaderFollowerTest, work_in_the_poller_wakes_and_stays_there) {
  Room room;
  room.work->wake();
  room.room->sleep_until_work(std::chrono::hours(1));
  EXPECT_EQ(room.poller.wait(Duration(0)).size(), 1U);
}

TEST(LeaderFollowerTest, what_has_come_about_wakes_nobody_who_sleeps_for_work) {
  constexpr int kRounds = 20'000;
  Room room;
  std::atomic<bool> stop{false};
  std::atomic<int> woken{0};
  std::thread worker([&] {
    for (; !stop.load(); woken.fetch_add(1)) room.room->sleep_until_work(std::chrono::hours(1));
  });
  for (int i = 0; i < kRounds; ++i) {
    room.advance();
    std::this_thread::yield();
  }
  EXPECT_EQ(woken.load(), 0);
  stop.store(true);
  room.room->wake();
  worker.join();
}

TEST(LeaderFollowerTest, wake_before_the_sleep_ends_it) {
  Room room;
  room.room->wake();
  room.room->sleep_until_work(std::chrono::hours(1));
}

TEST(LeaderFollowerTest, who_has_no_time_makes_progress_once) {
  Room room;
  for (int i = 1; i <= 3; ++i) {
    room.room->wait(
        {Duration(0)}, [&] { return room.done.load() >= 3; },
        [&] {
          room.done.fetch_add(1);
          return true;
        });
    EXPECT_EQ(room.done.load(), i);
  }
  room.room->wait(
      {Duration(0)}, [] { return true; },
      []() -> bool {
        ADD_FAILURE() << "what is there needs no progress";
        return false;
      });
}

TEST(LeaderFollowerTest, wait_ends_with_its_time) {
  Room room;
  room.room->wait(
      {Duration(0)}, [] { return false; }, [] { return true; });
  room.room->wait(
      {.timeout = std::chrono::milliseconds(1), .counts_sleep = true}, [] { return false; },
      [] { return false; });
}

TEST(LeaderFollowerTest, who_runs_out_of_memory_leads_no_longer) {
  Room room;
  const auto never = [] { return false; };
  const auto fails = []() -> bool { throw std::bad_alloc(); };
  for (const Duration timeout : {Duration(0), Duration(std::chrono::hours(1))}) {
    EXPECT_THROW(room.room->wait({timeout}, never, fails), std::bad_alloc);
    bool leads = false;
    room.room->wait({Duration(0)}, never, [&] { return leads = true; });
    EXPECT_TRUE(leads) << "nobody makes progress any more";
  }
}

/// A thread in the background, and how often it made progress.
struct Server {
  explicit Server(Room& room, int busy = 0) : busy_turns(busy) {
    thread = std::thread([this, &room] {
      for (; !stop.load(); turns.fetch_add(1))
        room.room->serve(std::chrono::hours(1), [&] {
          room.work->clear();
          served.fetch_add(1);
          return busy_turns.fetch_sub(1) > 0 ? LeaderFollower::Turn::others_are_at_it
                                             : LeaderFollower::Turn::idle;
        });
      gone.store(true);
    });
  }
  void end(Room& room) {
    stop.store(true);
    while (!gone.load()) room.room->wake();  // one that comes before a nap does not end it
    thread.join();
  }
  std::atomic<int> busy_turns;
  std::atomic<int> turns{0};
  std::atomic<int> served{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> gone{false};
  std::thread thread;
};

TEST(LeaderFollowerTest, who_serves_takes_up_work_and_sleeps_when_there_is_none) {
  Room room;
  Server server(room);
  EXPECT_TRUE(eventually([&] { return server.served.load() == 1; }));
  for (int i = 2; i <= 100; ++i) {
    room.work->wake();
    EXPECT_TRUE(eventually([&] { return server.served.load() >= i; }));
  }
  server.end(room);
}

TEST(LeaderFollowerTest, who_serves_asks_again_when_another_thread_was_at_it) {
  Room room;
  Server server(room, 3);
  EXPECT_TRUE(eventually([&] { return server.served.load() == 4; }));
  server.end(room);
}

TEST(LeaderFollowerTest, who_serves_stands_back_while_somebody_leads) {
  Room room;
  std::thread leader([&] { room.wait_for(1); });
  // It leads once it has cleared this.
  room.work->wake();
  EXPECT_TRUE(eventually([&] { return !room.work->is_pending(); }));
  Server server(room);
  EXPECT_TRUE(eventually([&] { return server.turns.load() >= 1; }));
  for (int i = 0; i < 100; ++i) {
    room.work->wake();
    EXPECT_TRUE(eventually([&] { return !room.work->is_pending(); }));
  }
  EXPECT_EQ(server.served.load(), 0);
  room.advance();
  leader.join();
  EXPECT_TRUE(eventually([&] { return server.served.load() >= 1; })) << "nobody took it up again";
  server.end(room);
}

TEST(LeaderFollowerTest, who_serves_stands_back_while_others_ask) {
  Room room;
  ManualClock clock;
  room.room = LeaderFollower::open(
                  {.poller = room.poller, .clock = clock, .longest_sleep = std::chrono::hours(1)})
                  .value();
  // Only to one that is there: the first turn finds that nobody asks.
  room.room->serve(Duration(0), [] { return LeaderFollower::Turn::more; });
  room.room->note_progress();
  Server server(room);
  EXPECT_TRUE(eventually([&] { return server.turns.load() >= 3; }));
  EXPECT_EQ(server.served.load(), 0);
  clock.advance(std::chrono::milliseconds(1));
  EXPECT_TRUE(eventually([&] { return server.served.load() >= 1; })) << "nobody took it up again";
  server.end(room);
}

}  // namespace
}  // namespace towpath::agent
