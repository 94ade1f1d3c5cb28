#include "tools/replay/account.h"

#include <gtest/gtest.h>

namespace towpath::tools::replay {
namespace {

Account word(std::uint64_t flipped, const Tally& torn) {
  Account account;
  account.of(Mistake::flip_bit).made = flipped;
  account.of(Mistake::torn_write) = torn;
  return account;
}

Faults found(Mistake mistake, std::uint64_t count) {
  Faults faults;
  faults.add(std::string(name_of(mistake)), count, "seen");
  return faults;
}

TEST(AccountTest, words_add_up_what_decode_meets_and_keep_the_last_of_what_prefill_meets) {
  const Account early = word(2, {.made = 3, .found = 1});
  const Account late = word(1, {.made = 5, .gone = 1, .found = 2});
  Account in_order, out_of_order;
  in_order.hear(early), in_order.hear(late);
  out_of_order.hear(late), out_of_order.hear(early);
  for (const Account& heard : {in_order, out_of_order}) {
    EXPECT_EQ(heard.of(Mistake::flip_bit).made, 3U);
    EXPECT_EQ(heard.of(Mistake::torn_write), (Tally{.made = 5, .gone = 1, .found = 2}));
  }
}

TEST(AccountTest, what_a_dead_prefill_reported_adds_up_to_what_was_found) {
  const Account looked_at = word(2, {.made = 3, .found = 1});
  const Account unread = word(4, {.made = 5, .found = 2});
  Account reported;
  reported.hear(looked_at);
  reported.hear(unread);
  reported.miss(unread);
  Faults faults = found(Mistake::flip_bit, 2);
  reported.bury("prefill-1", faults);
  settle(reported, faults);
  EXPECT_TRUE(faults.none());
  EXPECT_EQ(reported.of(Mistake::flip_bit), (Tally{.made = 6, .gone = 4, .found = 2}));
  EXPECT_EQ(reported.of(Mistake::torn_write), (Tally{.made = 5, .gone = 3, .found = 2}));
}

TEST(AccountTest,
     a_wrong_block_that_nobody_reported_of_is_a_fault_and_so_is_one_that_nobody_found) {
  for (const std::uint64_t count : {1U, 3U}) {
    Account reported = word(2, {});
    Faults faults = found(Mistake::flip_bit, count);
    settle(reported, faults);
    EXPECT_EQ(faults.count_of("unnoticed"), 1U) << count;
  }
}

TEST(AccountTest, what_nobody_made_on_purpose_stays_a_fault_under_its_name) {
  Account mistakes;
  Faults faults = found(Mistake::torn_write, 1);
  settle(mistakes, faults);
  EXPECT_EQ(faults.count_of("torn-write"), 1U);
}

// Decode met a torn block: its prefill, who had found the one it made, had served another.
TEST(AccountTest, death_excuses_no_torn_block_that_was_served) {
  Account reported = word(0, {.made = 3, .found = 1});
  Faults faults = found(Mistake::torn_write, 1);
  reported.bury("prefill-1", faults);
  settle(reported, faults);
  EXPECT_EQ(faults.count_of("unnoticed"), 1U);
}

TEST(AccountTest, travels_in_a_message) {
  const Account reported = word(7, {.made = 3, .gone = 2, .found = 1});
  Message message{.kind = MessageKind::ready};
  reported.put(message, kMistakes);
  const auto bytes = encode(message);
  ASSERT_TRUE(bytes.ok());
  const auto read = decode(*bytes);
  ASSERT_TRUE(read.ok());
  const Account back = Account::from(*read, kMistakes);
  for (const Mistake mistake : all_mistakes()) EXPECT_EQ(back.of(mistake), reported.of(mistake));
}

}  // namespace
}  // namespace towpath::tools::replay
