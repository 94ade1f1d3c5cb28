#include <atomic>
#include <new>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/run/eventually.h>
#include <towpath/run/futex.h>
#include <towpath/run/spin_then_wait.h>
#include <towpath/run/worker.h>
#include <towpath/sys/clock.h>

namespace towpath::run {
namespace {

using std::chrono::milliseconds;
using Word = std::atomic<std::uint32_t>;

TEST(FutexTest, does_not_sleep_when_the_word_has_changed) {
  const Word word{1};
  EXPECT_EQ(futex_wait(word, 0), FutexWait::changed);
}

TEST(FutexTest, wait_ends_at_its_deadline_and_not_before) {
  const sys::SystemClock clock;
  const Word word{0};
  const auto deadline = Deadline::after(clock, milliseconds(5));
  while (futex_wait(word, 0, {.deadline = deadline}) != FutexWait::timed_out) {
  }
  EXPECT_TRUE(deadline.expired(clock));
  EXPECT_EQ(futex_wait(word, 0, {.deadline = Deadline::now()}), FutexWait::timed_out);
  EXPECT_EQ(futex_wait(word, 0, {.deadline = Deadline(Instant{-5})}), FutexWait::timed_out);
}

TEST(FutexTest, wake_reports_how_many_slept) {
  Word word{0};
  EXPECT_EQ(futex_wake(word, kWakeAll), 0U);
  auto sleeper = Worker::start("sleeper", [&](const StopToken&) {
                   while (word.load() == 0) futex_wait(word, 0);
                 }).value();
  // One that is woken without a change goes back to sleep.
  EXPECT_TRUE(eventually([&] { return futex_wake(word, 1) == 1; }));
  word = 1;
  futex_wake(word, kWakeAll);
  sleeper.join();
}

TEST(FutexTest, shared_scope_reaches_another_process) {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* word = new (page) Word{0};
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto value = spin_then_wait(*word, 0, {.spins = 0, .scope = FutexScope::shared});
    _exit(value == 7U ? 0 : 1);
  }
  // Woken at least once while it sleeps and finds nothing changed.
  EXPECT_TRUE(eventually([&] { return futex_wake(*word, 1, FutexScope::shared) == 1; }));
  word->store(7);
  futex_wake(*word, kWakeAll, FutexScope::shared);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  munmap(page, 4096);
}

TEST(SpinThenWaitTest, gives_the_new_value_or_nothing_at_the_deadline) {
  Word word{4};
  EXPECT_EQ(spin_then_wait(word, 3), 4U);
  EXPECT_EQ(spin_then_wait(word, 4, {.deadline = Deadline::now()}), std::nullopt);
  EXPECT_EQ(spin_then_wait(word, 4, {.spins = 0, .deadline = Deadline::now()}), std::nullopt);
}

TEST(SpinThenWaitTest, two_threads_hand_a_word_to_and_fro) {
  constexpr std::uint32_t kRounds = 500;
  Word word{0};
  std::uint32_t guarded = 0;  // what the word guards: TSan looks at the ordering
  const auto play = [&](std::uint32_t first) {
    for (std::uint32_t turn = first; turn < kRounds; turn += 2) {
      if (turn != 0) {
        EXPECT_EQ(spin_then_wait(word, turn - 1, {.spins = 10}), turn);
      }
      ++guarded;
      word.store(turn + 1, std::memory_order_release);
      futex_wake(word, 1);
    }
  };
  auto other = Worker::start("odd turns", [&](const StopToken&) { play(1); }).value();
  play(0);
  other.join();
  EXPECT_EQ(guarded, kRounds);
}

}  // namespace
}  // namespace towpath::run
