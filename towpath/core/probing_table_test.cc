#include <memory>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include <towpath/core/probing_table.h>

namespace towpath {
namespace {

struct Entry {
  std::size_t key = 0;
  std::unique_ptr<int> value;

  bool is_free() const noexcept { return value == nullptr; }
  std::size_t home() const noexcept { return key; }
};

Entry* find(ProbingTable<Entry>& table, std::size_t key) {
  return table.find(key, [key](const Entry& one) { return one.key == key; });
}

TEST(ProbingTableTest, an_empty_one_has_nothing) {
  ProbingTable<Entry> table;
  EXPECT_EQ(find(table, 7), nullptr);
  EXPECT_EQ(table.size(), 0U);
}

// Few low bits, so that most stand where others would be, around the end of the table as well.
TEST(ProbingTableTest, holds_what_a_multiset_holds) {
  std::mt19937_64 random(1);
  ProbingTable<Entry> table;
  std::multiset<std::size_t> expected;
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t key = (random() % 16 << 32U) + random() % 4 * 7 + 1;
    if (random() % 2 == 0) {
      table.make_room(1);
      table.put({key, std::make_unique<int>(static_cast<int>(key % 1000))});
      expected.insert(key);
    } else if (Entry* const found = find(table, key)) {
      const Entry taken = table.take_out(*found);
      ASSERT_EQ(taken.key, key);
      ASSERT_EQ(*taken.value, static_cast<int>(key % 1000));
      expected.erase(expected.find(key));
    } else {
      ASSERT_EQ(expected.count(key), 0U) << step;
    }
    ASSERT_EQ(table.size(), expected.size());
  }
  for (const std::size_t key : std::set(expected.begin(), expected.end())) {
    while (Entry* const found = find(table, key)) {
      (void)table.take_out(*found);
      expected.erase(expected.find(key));
    }
    ASSERT_EQ(expected.count(key), 0U);
  }
  EXPECT_EQ(table.size(), 0U);
}

}  // namespace
}  // namespace towpath
