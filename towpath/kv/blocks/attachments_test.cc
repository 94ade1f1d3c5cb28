#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <towpath/kv/blocks/pool_fixture.h>

namespace towpath::kv {
namespace {

using testing::make_pool;
using testing::put;

struct Note {
  int number = 0;
};

TEST(AttachmentsTest, values_are_attached_one_of_each_type_and_go_with_the_block) {
  const auto pool = make_pool(1);
  BlockRef block = put(*pool, 1);
  EXPECT_TRUE(pool->attach(block, std::make_shared<Note>(5)));
  EXPECT_FALSE(pool->attach(block, std::make_shared<Note>(6))) << "it has one";
  EXPECT_TRUE(pool->attach(block, std::make_shared<std::string>("of another type")));
  EXPECT_EQ(pool->attached<int>(block), nullptr);
  EXPECT_EQ(*pool->detach<std::string>(block), "of another type");
  EXPECT_EQ(pool->attached<std::string>(block), nullptr);
  const std::weak_ptr<Note> note = pool->attached<Note>(block);
  block = {};
  EXPECT_EQ(note.lock()->number, 5) << "nobody holds the block, but it is here";
  block = put(*pool, 2);
  EXPECT_TRUE(note.expired()) << "it was evicted";
  EXPECT_EQ(pool->attached<Note>(block), nullptr) << "the slot is another block's";
}

TEST(AttachmentsTest, a_block_that_is_dropped_keeps_its_values_until_it_is_let_go) {
  for (const bool is_held : {true, false}) {
    const auto pool = make_pool(1);
    BlockRef block = put(*pool, 1);
    ASSERT_TRUE(pool->attach(block, std::make_shared<Note>(5)));
    const std::weak_ptr<Note> note = pool->attached<Note>(block);
    if (!is_held) block = {};
    EXPECT_TRUE(pool->drop(1));
    EXPECT_EQ(note.expired(), !is_held);
    block = {};
    EXPECT_TRUE(note.expired());
  }
}

TEST(AttachmentsTest, a_duplicate_has_values_of_its_own) {
  const auto pool = make_pool(2, nullptr, Duplicates::allow);
  const BlockRef first = put(*pool, 1);
  BlockRef second = put(*pool, 1);
  EXPECT_TRUE(pool->attach(second, std::make_shared<Note>(2)));
  EXPECT_EQ(pool->attached<Note>(first), nullptr);
  const std::weak_ptr<Note> note = pool->attached<Note>(second);
  second = {};
  EXPECT_TRUE(note.expired());
}

TEST(AttachmentsTest, what_is_attached_may_ask_the_pool_when_it_goes) {
  struct Asks {
    BlockPool& pool;
    bool& was_gone;
    ~Asks() { was_gone = !pool.find(1); }
  };
  const auto pool = make_pool(1);
  bool was_gone = false, was_gone_when_refused = true;
  (void)pool->attach(put(*pool, 1), std::make_shared<Asks>(*pool, was_gone));
  (void)pool->attach(pool->find(1), std::make_shared<Asks>(*pool, was_gone_when_refused));
  EXPECT_FALSE(was_gone_when_refused);
  (void)put(*pool, 2);
  EXPECT_TRUE(was_gone);
}

TEST(AttachmentsTest, to_no_block_and_to_another_pools_nothing_is_attached) {
  const auto pool = make_pool(1);
  const auto other = make_pool(1);
  const BlockRef block = put(*other, 1);
  EXPECT_FALSE(pool->attach(BlockRef(), std::make_shared<Note>()));
  EXPECT_FALSE(pool->attach(block, std::make_shared<Note>()));
  EXPECT_FALSE(other->attach(block, std::shared_ptr<Note>()));
  EXPECT_EQ(pool->attached<Note>(block), nullptr);
  EXPECT_EQ(pool->detach<Note>(block), nullptr);
}

}  // namespace
}  // namespace towpath::kv
