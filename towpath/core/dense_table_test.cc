#include <map>
#include <random>

#include <gtest/gtest.h>

#include <towpath/core/dense_table.h>

namespace towpath {
namespace {

struct Number {
  std::uint64_t name = 0;
  std::uint32_t value = 0;
  bool is_there = false;

  bool is_free() const { return !is_there; }
  std::uint64_t key() const { return name; }
};

void expect_same(const DenseTable<Number>& table,
                 const std::map<std::uint64_t, std::uint32_t>& model) {
  ASSERT_EQ(table.size(), model.size());
  std::size_t seen = 0;
  table.for_each([&](const Number& number) {
    ++seen;
    const auto known = model.find(number.name);
    ASSERT_TRUE(known != model.end()) << number.name;
    EXPECT_EQ(known->second, number.value);
  });
  EXPECT_EQ(seen, model.size());
  for (const auto& [name, value] : model) {
    const Number* found = table.find(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->value, value);
  }
}

// Small keys stand close to each other; few of them are taken out and put again, over and over.
TEST(DenseTableTest, is_a_map_whatever_is_put_and_taken_out) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    const std::uint64_t names = 1 + random() % 400;
    DenseTable<Number> table;
    std::map<std::uint64_t, std::uint32_t> model;
    for (int step = 0; step < 5000; ++step) {
      const std::uint64_t name = random() % names * (seed % 2 == 0 ? 1 : 0x100000001ULL);
      Number* found = table.find(name);
      ASSERT_EQ(found != nullptr, model.contains(name));
      const auto value = static_cast<std::uint32_t>(random());
      if (found == nullptr) {
        table.put({name, value, true});
        model[name] = value;
      } else if (random() % 3 == 0) {
        found->value = model[name] = value;
      } else {
        table.take_out(found);
        model.erase(name);
      }
      if (step % 100 != 0) continue;
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", step " << step);
      ASSERT_NO_FATAL_FAILURE(expect_same(table, model));
    }
  }
}

// Copying one table into another takes time as it has entries, not as their square.
TEST(DenseTableTest, one_is_filled_from_another) {
  DenseTable<Number> table;
  for (std::uint64_t name = 0; name < 300'000; ++name) table.put({name, 0, true});
  DenseTable<Number> copy;
  table.for_each([&](const Number& number) {
    if (copy.find(number.name) == nullptr) copy.put(number);
  });
  EXPECT_EQ(copy.size(), table.size());
}

TEST(DenseTableTest, gives_all_back_and_is_used_again) {
  DenseTable<Number> table;
  for (std::uint64_t name = 0; name < 1000; ++name) table.put({name, 0, true});
  for (std::uint64_t name = 0; name < 1000; ++name) table.take_out(table.find(name));
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.find(3), nullptr);
  table.put({3, 9, true});
  EXPECT_EQ(table.find(3)->value, 9U);
}

}  // namespace
}  // namespace towpath
