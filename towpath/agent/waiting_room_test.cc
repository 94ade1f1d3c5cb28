#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/agent/waiting_room.h>
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
  std::unique_ptr<WaitingRoom> room =
      WaitingRoom::open(poller, clock, std::chrono::hours(1)).value();
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
    room->tell();
    work->clear();
  }
};

TEST(WaitingRoomTest, leader_is_woken_although_others_make_progress_at_once) {
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

TEST(WaitingRoomTest, followers_are_woken_and_one_of_them_leads_next) {
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

TEST(WaitingRoomTest, work_in_the_poller_wakes_and_stays_there) {
  Room room;
  room.work->wake();
  room.room->sleep_until_work(std::chrono::hours(1));
  EXPECT_EQ(room.poller.wait(Duration(0)).size(), 1U);
}

TEST(WaitingRoomTest, what_has_come_about_wakes_nobody_who_sleeps_for_work) {
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

TEST(WaitingRoomTest, wake_before_the_sleep_ends_it) {
  Room room;
  room.room->wake();
  room.room->sleep_until_work(std::chrono::hours(1));
}

TEST(WaitingRoomTest, wait_ends_with_its_time) {
  Room room;
  room.room->wait(
      {Duration(0)}, [] { return false; }, [] { return true; });
  room.room->wait(
      {.timeout = std::chrono::milliseconds(1), .counts_sleep = true}, [] { return false; },
      [] { return false; });
}

}  // namespace
}  // namespace towpath::agent
