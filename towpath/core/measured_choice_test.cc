#include <gtest/gtest.h>

#include <towpath/core/measured_choice.h>

namespace towpath {
namespace {

using std::chrono::microseconds;

TEST(MeasuredChoiceTest, the_best_of_a_way_s_trials_counts) {
  MeasuredChoice choice(2, 2);
  EXPECT_FALSE(choice.fastest());
  EXPECT_FALSE(choice.note(0, microseconds(9)));
  EXPECT_FALSE(choice.note(1, microseconds(5)));
  EXPECT_EQ(choice.fastest(), 1u);
  EXPECT_TRUE(choice.wants_trial(0));
  EXPECT_TRUE(choice.note(0, microseconds(4)));
  EXPECT_TRUE(choice.note(1, microseconds(6)));
  EXPECT_EQ(choice.fastest(), 0u);
  EXPECT_EQ(choice.best(0), microseconds(4));
  EXPECT_EQ(choice.best(1), microseconds(5));
}

TEST(MeasuredChoiceTest, the_spread_is_that_of_the_trials_that_got_through) {
  MeasuredChoice choice(2, 4);
  EXPECT_EQ(choice.spread(0), microseconds(0)) << "none yet";
  choice.note(0, microseconds(5));
  EXPECT_EQ(choice.spread(0), microseconds(0)) << "one";
  choice.note(0, microseconds(12));
  choice.note(0, std::nullopt);
  choice.note(0, microseconds(4));
  choice.note(0, microseconds(90));  // no trial any more
  EXPECT_EQ(choice.spread(0), microseconds(8));
  EXPECT_EQ(choice.spread(1), microseconds(0));
}

TEST(MeasuredChoiceTest, what_comes_after_the_trials_changes_nothing) {
  MeasuredChoice choice(2);
  EXPECT_TRUE(choice.note(0, microseconds(5)));
  EXPECT_TRUE(choice.note(1, microseconds(6)));
  EXPECT_FALSE(choice.wants_trial(1));
  EXPECT_FALSE(choice.note(1, microseconds(1)));
  EXPECT_EQ(choice.fastest(), 0u);
}

TEST(MeasuredChoiceTest, a_way_that_fails_is_tried_as_often_and_never_the_fastest) {
  MeasuredChoice choice(2, 2);
  EXPECT_FALSE(choice.note(0, std::nullopt));
  EXPECT_FALSE(choice.has_failed(0)) << "it is tried once more";
  EXPECT_TRUE(choice.note(0, std::nullopt));
  EXPECT_TRUE(choice.has_failed(0));
  EXPECT_FALSE(choice.fastest());
  choice.note(1, microseconds(7));
  EXPECT_EQ(choice.fastest(), 1u);
}

TEST(MeasuredChoiceTest, of_equals_the_first_is_taken) {
  MeasuredChoice choice(3);
  for (const std::size_t way : {2u, 1u}) choice.note(way, microseconds(3));
  EXPECT_EQ(choice.fastest(), 1u);
}

}  // namespace
}  // namespace towpath
