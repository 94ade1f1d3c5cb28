#include <utility>

#include <gtest/gtest.h>

#include <towpath/kv/blocks/pool_fixture.h>

namespace towpath::kv {
namespace {

using testing::make_pool;
using testing::put;

CompleteBlock completed(PartialBlock&& partial, BlockHash hash) {
  return {std::move(partial), {.block = {.hash = hash}, .digest = {.value = hash}}};
}

TEST(BlockHandlesTest, a_slot_is_registered_once) {
  for (const Duplicates duplicates : {Duplicates::refuse, Duplicates::allow}) {
    const auto pool = make_pool(2, nullptr, duplicates);
    PartialBlock partial = std::move(pool->allocate(1)->front());
    CompleteBlock block = completed(std::move(partial), 1);
    BlockRef first = *pool->register_block(std::move(block));
    // NOLINTBEGIN(bugprone-use-after-move): what is tested
    EXPECT_EQ(pool->register_block(std::move(block)).code(), Code::invalid_argument);
    EXPECT_EQ(pool->register_block(completed(std::move(partial), 2)).code(),
              Code::invalid_argument);
    // NOLINTEND(bugprone-use-after-move)
    EXPECT_FALSE(pool->find(2)) << "bytes of block 1 by another name";
    const BlockRef second = put(*pool, 3);
    EXPECT_NE(first.slot(), second.slot());
    first = {};
    EXPECT_TRUE(pool->find(1));
  }
}

TEST(BlockHandlesTest, a_block_is_registered_where_its_slot_is) {
  const auto pool = make_pool(1), other = make_pool(1);
  CompleteBlock foreign = completed(std::move(other->allocate(1)->front()), 1);
  EXPECT_EQ(pool->register_block(std::move(foreign)).code(), Code::invalid_argument);
  EXPECT_EQ(other->figures().free, 1U) << "it was given back";
  EXPECT_FALSE(pool->find(1));
}

}  // namespace
}  // namespace towpath::kv
