#include <gtest/gtest.h>

#include <towpath/wire/testing/sample.h>

namespace towpath::wire {
namespace {

TEST(SchemaTest, a_tag_holds_a_number_and_whether_it_must_be_known) {
  EXPECT_EQ(number_of(required(7)), 7);
  EXPECT_EQ(number_of(optional(7)), 7);
  EXPECT_TRUE(is_required(required(7)));
  EXPECT_FALSE(is_required(optional(7)));
  EXPECT_NE(required(7), optional(7));
}

TEST(SchemaTest, every_kind_has_a_name) {
  EXPECT_EQ(name_of(Kind::number), "number");
  EXPECT_EQ(name_of(Kind::bytes), "bytes");
  EXPECT_EQ(name_of(Kind::nested), "nested");
  EXPECT_EQ(name_of(Kind{9}), "unknown");
}

TEST(SchemaTest, rules_are_found_in_any_order) {
  Tally tally(testing::kBoatSchema, Tally::Side::reading, 0);
  for (const Tag tag : {testing::kPart, testing::kPart, testing::kName, testing::kNote,
                        testing::kName, testing::kPart}) {
    const FieldRule* rule = tally.find(tag);
    ASSERT_NE(rule, nullptr);
    EXPECT_EQ(rule->tag, tag);
  }
  EXPECT_EQ(tally.find(optional(1)), nullptr);
}

}  // namespace
}  // namespace towpath::wire
