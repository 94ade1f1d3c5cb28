#include <gtest/gtest.h>

#include <towpath/agent/backend_chooser.h>

namespace towpath::agent {
namespace {

using std::chrono::microseconds;

TEST(BackendChooserTest, the_lowest_cost_wins_and_of_equal_ones_the_first) {
  BackendChooser chooser;
  EXPECT_FALSE(chooser.best());
  const Offer first{.instance = 0, .cost = microseconds(9)};
  const Offer second{.instance = 1, .cost = microseconds(5)};
  const Offer third{.instance = 2, .cost = microseconds(5), .is_measured = true};
  for (const Offer& offer : {first, second, third}) chooser.consider(offer);
  EXPECT_EQ(chooser.best()->instance, 1U);
  EXPECT_EQ(chooser.reason_of(first), "costs more");
  EXPECT_EQ(chooser.reason_of(second), "costs least");
  EXPECT_EQ(chooser.reason_of(third), "was slower");
}

TEST(BackendChooserTest, one_that_has_to_be_tried_goes_before_all_cheaper_ones) {
  BackendChooser chooser;
  const Offer cheap{.instance = 0, .cost = microseconds(1)};
  const Offer untried{.instance = 1, .cost = microseconds(90), .wants_trial = true};
  chooser.consider(cheap);
  chooser.consider(untried);
  EXPECT_EQ(chooser.best()->instance, 1U);
  EXPECT_EQ(chooser.reason_of(untried), "is tried, so that its time is known");
  EXPECT_EQ(chooser.reason_of(cheap), "has been tried");
}

TEST(BackendChooserTest, one_that_failed_whenever_it_was_tried_is_the_last_resort) {
  BackendChooser chooser;
  const Offer failed{.instance = 0, .cost = microseconds(1), .has_failed = true};
  chooser.consider(failed);
  EXPECT_EQ(chooser.best()->instance, 0U);
  chooser.consider({.instance = 1, .cost = microseconds(90)});
  EXPECT_EQ(chooser.best()->instance, 1U);
  EXPECT_EQ(chooser.reason_of(failed), "failed when it was tried");
}

TEST(BackendChooserTest, an_offer_adds_up_what_a_backend_declares) {
  const TransferShape shape{.descriptors = 4, .bytes = 2'000'000};
  const backend::Cost cost{
      .latency = microseconds(10), .per_segment = microseconds(2), .bytes_per_second = 1e9};
  EXPECT_EQ(Offer::of(shape, 3, cost, {}).cost, microseconds(10 + 4 * 2 + 2000));
  EXPECT_FALSE(Offer::of(shape, 3, cost, {}).is_measured);
}

TEST(BackendChooserTest, the_time_of_transfers_that_were_alike_replaces_it) {
  const PathTimes::Known known{.time = microseconds(77), .spread = microseconds(5)};
  const Offer offer = Offer::of({.descriptors = 4, .bytes = 100}, 3, {}, known);
  EXPECT_EQ(offer.cost, microseconds(77));
  EXPECT_EQ(offer.margin, microseconds(5));
  EXPECT_TRUE(offer.is_measured);
}

}  // namespace
}  // namespace towpath::agent
