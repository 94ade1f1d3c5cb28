#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/memory/free_extents.h>

namespace towpath::memory::internal {
namespace {

/// One bit per page, and everything by looking at all of them.
class Bitmap {
 public:
  explicit Bitmap(std::uint64_t pages) : free_(pages, true) {}

  void set(std::uint64_t first, std::uint64_t pages, bool is_free) {
    for (std::uint64_t i = first; i < first + pages; ++i) {
      ASSERT_NE(free_[i], is_free) << "page " << i << " changed to what it was";
      free_[i] = is_free;
    }
  }
  std::uint64_t free_pages() const {
    return static_cast<std::uint64_t>(std::count(free_.begin(), free_.end(), true));
  }
  /// (pages, first) of every free extent, as long as possible each.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
    for (std::uint64_t i = 0; i < free_.size(); ++i) {
      if (!free_[i]) continue;
      if (i > 0 && free_[i - 1]) {
        ++found.back().first;
      } else {
        found.emplace_back(1, i);
      }
    }
    return found;
  }
  std::optional<std::uint64_t> best_fit(std::uint64_t pages, std::uint64_t multiple) const {
    const auto round_up = [&](std::uint64_t page) {
      return (page + multiple - 1) / multiple * multiple;
    };
    std::optional<std::pair<std::uint64_t, std::uint64_t>> best;
    for (const auto& extent : extents())
      if (round_up(extent.second) + pages <= extent.second + extent.first &&
          (!best || extent < *best))
        best = extent;
    if (!best) return std::nullopt;
    return round_up(best->second);
  }
  std::uint64_t largest() const {
    std::uint64_t most = 0;
    for (const auto& [pages, first] : extents()) most = std::max(most, pages);
    return most;
  }

 private:
  std::vector<bool> free_;
};

/// Random takes and returns; after each the figures are those of the bitmap.
void compare_with_bitmap(std::uint32_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::uint64_t pages = 1 + random() % 200;
  FreeExtents extents(pages);
  Bitmap bitmap(pages);
  std::vector<FreeExtents::Extent> held;
  for (int step = 0; step < 400 && !::testing::Test::HasFailure(); ++step) {
    if (random() % 5 < 3) {
      const std::uint64_t wanted = 1 + random() % (1 + pages / 6);
      const std::uint64_t multiple = 1ULL << (random() % 5);
      const auto first = extents.take(wanted, multiple);
      ASSERT_EQ(first, bitmap.best_fit(wanted, multiple));
      if (first) bitmap.set(*first, wanted, false);
      if (first) held.push_back({.first = *first, .pages = wanted});
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      extents.give_back(held.back());
      bitmap.set(held.back().first, held.back().pages, true);
      held.pop_back();
    }
    ASSERT_EQ(extents.free_pages(), bitmap.free_pages());
    ASSERT_EQ(extents.largest_pages(), bitmap.largest());
  }
}

TEST(FreeExtentsTest, behaves_like_a_bitmap_whatever_happens) {
  for (std::uint32_t seed = 0; seed < 200 && !HasFailure(); ++seed) compare_with_bitmap(seed);
}

TEST(FreeExtentsTest, nothing_of_nothing) {
  FreeExtents none(0);
  EXPECT_EQ(none.take(1), std::nullopt);
  EXPECT_EQ(none.largest_pages(), 0u);
}

TEST(FreeExtentsDeathTest, giving_back_twice_is_a_fault) {
  FreeExtents extents(4);
  ASSERT_EQ(extents.take(4), 0u);
  extents.give_back({.first = 0, .pages = 2});
  EXPECT_DEATH(extents.give_back({.first = 1, .pages = 1}), "given back twice");
  EXPECT_DEATH(extents.give_back({.first = 0, .pages = 1}), "given back twice");
}

}  // namespace
}  // namespace towpath::memory::internal
