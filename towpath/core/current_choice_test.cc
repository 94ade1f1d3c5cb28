#include <array>

#include <gtest/gtest.h>

#include <towpath/core/current_choice.h>

namespace towpath {
namespace {

constexpr std::uint32_t kRound = CurrentChoice::kRound;
constexpr std::uint32_t kTrial = CurrentChoice::kTrial;

/// How often each way was taken in a round in which a piece of work takes so long.
std::array<unsigned, 2> round_of(CurrentChoice& choice, std::array<int, 2> nanoseconds) {
  std::array<unsigned, 2> taken{};
  for (std::uint32_t i = 0; i < kRound; ++i) {
    const std::size_t way = choice.next();
    ++taken[way];
    choice.note(way, Duration(nanoseconds[way] * 10), 10);
  }
  return taken;
}

TEST(CurrentChoiceTest, the_faster_way_is_taken_and_the_other_one_tried) {
  CurrentChoice choice;
  EXPECT_EQ(round_of(choice, {20, 10}), (std::array{kTrial, kRound - kTrial}));
  EXPECT_EQ(round_of(choice, {20, 10}), (std::array{kTrial, kRound - kTrial}));
  EXPECT_EQ(round_of(choice, {20, 30}), (std::array{kRound - kTrial, kTrial})) << "it became slow";
  EXPECT_EQ(round_of(choice, {20, 10}), (std::array{kTrial, kRound - kTrial})) << "and fast again";
  EXPECT_EQ(round_of(choice, {10, 10}), (std::array{kTrial, kRound - kTrial})) << "no reason";
}

TEST(CurrentChoiceTest, the_first_call_of_a_trial_does_not_count) {
  CurrentChoice choice;
  for (std::uint32_t i = 0; i < 2 * kTrial; ++i) {
    const std::size_t way = choice.next();
    choice.note(way, Duration(i == 0 ? 1'000'000 : way == 1 ? 10 : 20), 1);
  }
  EXPECT_EQ(choice.next(), 1U);
}

TEST(CurrentChoiceTest, a_clock_that_stands_still_changes_nothing) {
  CurrentChoice choice;
  EXPECT_EQ(round_of(choice, {0, 0}), (std::array{kRound - kTrial, kTrial}));
}

}  // namespace
}  // namespace towpath
