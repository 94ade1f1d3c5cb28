#include <cstring>

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <towpath/sys/mapping.h>
#include <towpath/sys/numa.h>
#include <towpath/sys/numa_placement.h>

namespace towpath::sys {
namespace {

constexpr std::uint64_t kPlaced = 64;

class NumaPlacementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Asked of the kernel: a container may refuse it, and so may a kernel without NUMA.
    if (::syscall(SYS_mbind, mapping_.bytes().data(), mapping_.size(), MPOL_DEFAULT, nullptr, 0, 0))
      GTEST_SKIP() << "mbind: " << std::strerror(errno);
    const Status status = place_memory(mapping_.bytes(), {.node = node_});
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  const unsigned node_ = numa_nodes().value().front().id;
  Mapping mapping_ = Mapping::anonymous(kPlaced * page_size()).value();
};

TEST_F(NumaPlacementTest, placed_pages_lie_where_they_were_asked_for) {
  ASSERT_TRUE(place_memory(mapping_.bytes(), {.node = node_, .policy = NodePolicy::bound}).ok());
  EXPECT_TRUE(pages_by_node(mapping_.bytes(), page_size())->empty()) << "nothing was touched yet";
  ASSERT_TRUE(populate(mapping_.bytes()).ok());
  const auto counts = pages_by_node(mapping_.bytes(), page_size()).value();
  ASSERT_EQ(counts.size(), 1u);
  EXPECT_EQ(counts.at(node_), kPlaced);
}

TEST_F(NumaPlacementTest, a_node_that_is_not_there_is_refused) {
  EXPECT_EQ(place_memory(mapping_.bytes(), {.node = 1000}).code(), Code::invalid_argument);
  EXPECT_EQ(place_memory(mapping_.bytes(), {.node = 5000}).code(), Code::invalid_argument);
  EXPECT_EQ(run_on_node(1000).code(), Code::not_found);
}

TEST_F(NumaPlacementTest, touching_changes_no_byte) {
  mapping_.bytes()[5] = std::byte{42};
  ASSERT_TRUE(populate(mapping_.bytes()).ok());
  EXPECT_EQ(mapping_.bytes()[5], std::byte{42});
}

}  // namespace
}  // namespace towpath::sys
