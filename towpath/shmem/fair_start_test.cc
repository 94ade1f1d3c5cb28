#include <set>

#include <gtest/gtest.h>

#include <towpath/shmem/world.h>

namespace towpath::shmem {
namespace {

TEST(FairStartTest, as_many_searches_as_there_are_elements_find_each_once) {
  FairStart fair;
  std::set<std::size_t> found;
  for (int search = 0; search < 7; ++search)
    found.insert(*fair.find(1, 7, [](std::size_t) { return true; }));
  EXPECT_EQ(found.size(), 7u);
}

TEST(FairStartTest, two_neighbours_among_many_alternate) {
  FairStart fair;
  const auto holds = [](std::size_t place) { return place == 10 || place == 11; };
  const std::size_t first = *fair.find(1, 1000, holds);
  EXPECT_EQ(*fair.find(1, 1000, holds), 21 - first);
  EXPECT_EQ(*fair.find(1, 1000, holds), first);
}

TEST(FairStartTest, a_list_that_became_shorter_is_searched_whole) {
  FairStart fair;
  (void)fair.find(1, 100, [](std::size_t place) { return place == 99; });
  EXPECT_EQ(fair.find(1, 3, [](std::size_t place) { return place == 1; }), 1u);
  EXPECT_EQ(fair.find(1, 3, [](std::size_t) { return false; }), std::nullopt);
  EXPECT_EQ(fair.find(1, 0, [](std::size_t) { return true; }), std::nullopt);
}

/// More lists than are remembered, searched by turns: none finds but a part of its elements.
TEST(FairStartTest, lists_that_are_forgotten_do_not_starve_either) {
  constexpr std::uint64_t kLists = 1000;
  constexpr std::size_t kElements = 5;
  FairStart fair;
  std::vector<std::set<std::size_t>> found(kLists);
  for (int round = 0; round < 200; ++round)
    for (std::uint64_t list = 0; list < kLists; ++list)
      found[list].insert(*fair.find(list, kElements, [](std::size_t) { return true; }));
  for (const auto& elements : found) EXPECT_EQ(elements.size(), kElements);
}

}  // namespace
}  // namespace towpath::shmem
