#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <towpath/memory/first_touch.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/numa_placement.h>

namespace towpath::memory {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kStretch = 32ull << 20;

/// Every look at it is ten seconds later than the one before.
class RushingClock final : public Clock {
 public:
  Instant now() const noexcept override { return {seconds_.fetch_add(10) * 1'000'000'000}; }
  Duration since_epoch() const noexcept override { return Duration(0); }

 private:
  mutable std::atomic<std::int64_t> seconds_{0};
};

TEST(FirstTouchTest, every_page_is_touched_and_no_byte_changed) {
  const sys::SystemClock clock;
  auto mapping = sys::Mapping::anonymous(kStretch + 12345).value();
  mapping.bytes()[kStretch] = std::byte{9};
  const auto touched = touch_first(mapping.bytes(), clock, {.threads = 4});
  ASSERT_TRUE(touched.ok()) << touched.status().to_string();
  EXPECT_EQ(touched->threads, 2u) << "no more than there are stretches";
  EXPECT_EQ(mapping.bytes()[kStretch], std::byte{9});
  if (::syscall(SYS_move_pages, 0, 0UL, nullptr, nullptr, nullptr, 0))
    GTEST_SKIP() << "move_pages: " << std::strerror(errno);
  const auto counts = sys::pages_by_node(mapping.bytes(), sys::page_size());
  ASSERT_TRUE(counts.ok()) << counts.status().to_string();
  std::uint64_t pages = 0;
  for (const auto& [node, count] : *counts) pages += count;
  EXPECT_EQ(pages, (kStretch + 12345) / sys::page_size() + 1);
}

TEST(FirstTouchTest, the_time_it_may_take_grows_with_the_size_and_ends) {
  EXPECT_EQ(touch_timeout(0), std::chrono::seconds(10));
  EXPECT_EQ(touch_timeout(8ull << 30), std::chrono::seconds(18));
  EXPECT_EQ(touch_timeout(1ull << 50), std::chrono::seconds(300));
}

TEST(FirstTouchTest, what_takes_too_long_says_how_far_it_came) {
  const RushingClock clock;
  auto mapping = sys::Mapping::anonymous(8 * kStretch).value();
  const auto touched =
      touch_first(mapping.bytes(), clock, {.threads = 1, .timeout = std::chrono::seconds(5)});
  EXPECT_EQ(touched.code(), Code::timed_out);
  EXPECT_THAT(std::string(touched.status().message()), HasSubstr("256 MiB"));
}

TEST(FirstTouchTest, a_node_that_has_no_processors_is_noted_and_touching_goes_on) {
  const sys::SystemClock clock;
  auto mapping = sys::Mapping::anonymous(4096).value();
  const auto touched = touch_first(mapping.bytes(), clock, {.node = 900, .threads = 1});
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

TEST(HostPagesTest, huge_pages_that_are_required_and_not_there_fail_with_the_remedy) {
  const auto region =
      SystemRegion::allocate({.size_bytes = 1ull << 45, .huge_pages = sys::HugePages::required});
  EXPECT_FALSE(region.ok());
  EXPECT_THAT(std::string(region.status().remedy()), HasSubstr("hugepages"));
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
  const auto region = SystemRegion::allocate({.size_bytes = 1 << 20, .node = 0, .touch = &clock});
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->placement().touch_threads, 1u);
}

}  // namespace
}  // namespace towpath::memory
