#include <atomic>
#include <cstring>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <towpath/memory/node_workers.h>
#include <towpath/memory/system_region.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/numa_placement.h>

namespace towpath::memory {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kExtent = 32ull << 20;

/// Stands still until somebody is at work; then all time is over.
class TimeOfWork final : public Clock {
 public:
  Instant now() const noexcept override { return {at_work ? 3'600'000'000'000 : 0}; }
  Duration since_epoch() const noexcept override { return Duration(0); }

  std::atomic<bool> at_work{false};
};

TEST(NodeWorkersTest, every_page_is_touched_and_no_byte_changed) {
  const sys::SystemClock clock;
  NodeWorkers workers(clock, {.threads = 4});
  auto mapping = sys::Mapping::anonymous(kExtent + 12345).value();
  mapping.bytes()[kExtent] = std::byte{9};
  const std::byte* const where = mapping.data();
  const auto touched = workers.touch(std::move(mapping));
  ASSERT_TRUE(touched.ok()) << touched.status().to_string();
  EXPECT_TRUE(touched->threads == 1 || touched->threads == 2) << "there are two extents";
  const ByteSpan bytes = touched->memory.bytes();
  EXPECT_EQ(bytes.data(), where);
  EXPECT_EQ(bytes[kExtent], std::byte{9});
  if (::syscall(SYS_move_pages, 0, 0UL, nullptr, nullptr, nullptr, 0))
    GTEST_SKIP() << "move_pages: " << std::strerror(errno);
  const auto counts = sys::pages_by_node(bytes, sys::page_size());
  ASSERT_TRUE(counts.ok()) << counts.status().to_string();
  std::uint64_t pages = 0;
  for (const auto& [node, count] : *counts) pages += count;
  EXPECT_EQ(pages, (kExtent + 12345) / sys::page_size() + 1);
}

TEST(NodeWorkersTest, a_nodes_threads_stand_and_serve_whoever_asks) {
  const sys::SystemClock clock;
  run::Mutex mutex;
  std::set<std::pair<pid_t, std::uint64_t>> seen;  // by whom, and how much
  NodeWorkers workers(clock, {.threads = 1, .touch = [&](ByteSpan bytes) {
                                const run::MutexLock lock(mutex);
                                seen.emplace(::gettid(), bytes.size());
                                return Status();
                              }});
  for (const std::uint64_t size : {4096, 8192, 12288})
    ASSERT_TRUE(workers.touch(sys::Mapping::anonymous(size).value(), {.node = 0}).ok());
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen.begin()->first, seen.rbegin()->first) << "one thread";
  EXPECT_NE(seen.begin()->first, ::gettid()) << "which is not ours: that keeps its processors";
  ASSERT_TRUE(workers.touch(sys::Mapping::anonymous(4096).value()).ok());
  std::set<pid_t> threads;
  for (const auto& [thread, size] : seen) threads.insert(thread);
  EXPECT_EQ(threads.size(), 2u) << "those of no node are others";
}

TEST(NodeWorkersTest, the_time_it_may_take_grows_with_the_size_and_ends) {
  EXPECT_EQ(touch_timeout(0), std::chrono::seconds(10));
  EXPECT_EQ(touch_timeout(8ull << 30), std::chrono::seconds(18));
  EXPECT_EQ(touch_timeout(1ull << 50), std::chrono::seconds(300));
}

// What the kernel is slow to give is not waited for beyond the time, and not unmapped under it.
TEST(NodeWorkersTest, who_waited_long_enough_goes_and_the_memory_goes_when_the_kernel_lets_it) {
  TimeOfWork clock;
  std::atomic<bool> given{false}, ended{false};
  NodeWorkers workers(clock, {.threads = 1, .touch = [&](ByteSpan bytes) {
                                clock.at_work = true;
                                given.wait(false);
                                bytes[0] = std::byte{1};
                                ended = true;
                                return Status();
                              }});
  auto mapping = sys::Mapping::anonymous(8 * kExtent).value();
  std::byte* const where = mapping.data();
  const auto is_mapped = [where] { return ::msync(where, sys::page_size(), MS_ASYNC) == 0; };
  const auto touched = workers.touch(std::move(mapping), {.timeout = std::chrono::milliseconds(5)});
  EXPECT_EQ(touched.code(), Code::timed_out);
  EXPECT_THAT(std::string(touched.status().message()), HasSubstr("256 MiB"));
  EXPECT_TRUE(is_mapped());
  EXPECT_FALSE(ended);
  given = true;
  given.notify_all();
  EXPECT_TRUE(run::eventually([&] { return !is_mapped(); }));
  EXPECT_TRUE(ended);
}

TEST(NodeWorkersTest, what_fails_is_reported_and_the_memory_is_gone) {
  const sys::SystemClock clock;
  NodeWorkers workers(
      clock, {.threads = 2, .touch = [](ByteSpan) { return error(Code::exhausted, "no pages"); }});
  auto mapping = sys::Mapping::anonymous(8 * kExtent).value();
  std::byte* const where = mapping.data();
  EXPECT_EQ(workers.touch(std::move(mapping)).code(), Code::exhausted);
  EXPECT_NE(::msync(where, sys::page_size(), MS_ASYNC), 0);
  EXPECT_EQ(workers.touch(sys::Mapping::anonymous(1).value()).code(), Code::exhausted)
      << "and others are served";
}

TEST(NodeWorkersTest, a_node_that_has_no_processors_is_noted_and_touching_goes_on) {
  const sys::SystemClock clock;
  NodeWorkers workers(clock);
  const auto touched = workers.touch(sys::Mapping::anonymous(4096).value(), {.node = 900});
  ASSERT_TRUE(touched.ok());
  EXPECT_THAT(touched->note, HasSubstr("900"));
}

TEST(HostPagesTest, a_node_that_is_not_there_is_noted_or_refused_as_asked) {
  const auto relaxed = SystemRegion::allocate({.size_bytes = 4096, .node = 1000});
  ASSERT_TRUE(relaxed.ok());
  EXPECT_EQ((*relaxed)->placement().node, std::nullopt);
  EXPECT_THAT((*relaxed)->placement().note, HasSubstr("1000"));
  const auto strict =
      SystemRegion::allocate({.size_bytes = 4096, .node = 1000, .node_rule = NodeRule::required});
  EXPECT_FALSE(strict.ok());
  EXPECT_FALSE(strict.status().cause().ok());
}

TEST(HostPagesTest, huge_pages_that_are_required_and_not_there_fail_with_the_hint) {
  const auto region =
      SystemRegion::allocate({.size_bytes = 1ull << 45, .huge_pages = sys::HugePages::required});
  EXPECT_FALSE(region.ok());
  EXPECT_THAT(std::string(region.status().hint()), HasSubstr("hugepages"));
}

TEST(HostPagesTest, huge_pages_that_are_wanted_say_what_was_had) {
  const auto region =
      SystemRegion::allocate({.size_bytes = 5 << 20, .huge_pages = sys::HugePages::best_effort});
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  EXPECT_EQ((*region)->size(), 5u << 20) << "also where the last huge page is longer";
  const Placement& had = (*region)->placement();
  if (had.pages != sys::PageKind::reserved) {
    EXPECT_FALSE(had.note.empty());
  }
  (*region)->bytes().back() = std::byte{1};
}

TEST(HostPagesTest, memory_that_was_touched_says_by_how_many) {
  const sys::SystemClock clock;
  NodeWorkers workers(clock);
  const auto region = SystemRegion::allocate({.size_bytes = 1 << 20, .node = 0, .touch = &workers});
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->placement().touch_threads, 1u);
}

}  // namespace
}  // namespace towpath::memory
