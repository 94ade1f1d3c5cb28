#include <gtest/gtest.h>

#include <towpath/backend/memory_table.h>

namespace towpath::backend {
namespace {

const AgentIdentity kOwner{"a", 7};
const RegionDescriptor kRegion{.address = 4096, .length = 64, .device_id = 2};

class MemoryTableTest : public ::testing::Test {
 protected:
  MemoryTable<RegisteredRegion> table_{kOwner};
};

TEST_F(MemoryTableTest, what_was_added_is_found_by_its_key) {
  const auto first = table_.add(kRegion);
  const auto second = table_.add(kRegion);  // registrations are a multiset
  EXPECT_NE(first->id, second->id);
  const auto id = id_of_key(key_of(*second));
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(*table_.find(*id, kRegion), second);
}

TEST_F(MemoryTableTest, what_was_taken_back_is_not_found_and_its_number_not_given_again) {
  const auto record = table_.add(kRegion);
  table_.remove(record->id);
  EXPECT_EQ(table_.find(record->id, kRegion).code(), Code::not_found);
  EXPECT_NE(table_.add(kRegion)->id, record->id);
  EXPECT_EQ(table_.take_all().size(), 1u);
  EXPECT_TRUE(table_.take_all().empty());
}

TEST_F(MemoryTableTest, a_region_must_lie_inside_of_what_was_registered) {
  const std::uint64_t id = table_.add(kRegion)->id;
  const auto code_for = [&](const RegionDescriptor& region) {
    return table_.find(id, region).code();
  };
  EXPECT_EQ(code_for({.address = 4097, .length = 63, .device_id = 2}), Code::ok);
  EXPECT_EQ(code_for({.address = 4097, .length = 64, .device_id = 2}), Code::corrupt);
  EXPECT_EQ(code_for({.address = 4095, .length = 8, .device_id = 2}), Code::corrupt);
  EXPECT_EQ(code_for({.address = 4096, .length = UINT64_MAX, .device_id = 2}), Code::corrupt);
  EXPECT_EQ(code_for({.address = 4096, .length = 8, .device_id = 1}), Code::corrupt);
  EXPECT_EQ(code_for({.kind = MemoryKind::pinned, .address = 4096, .length = 8, .device_id = 2}),
            Code::corrupt);
}

TEST_F(MemoryTableTest, a_number_of_the_backends_own_replaces_the_one_before) {
  table_.put(std::make_shared<RegisteredRegion>(kRegion, 9));
  const auto later = std::make_shared<RegisteredRegion>(kRegion, 9);
  table_.put(later);
  EXPECT_EQ(*table_.find(9, kRegion), later);
}

TEST_F(MemoryTableTest, keys_of_another_size_are_refused) {
  for (const std::size_t size : {0, 7, 9}) EXPECT_EQ(id_of_key(Bytes(size)).code(), Code::corrupt);
}

}  // namespace
}  // namespace towpath::backend
