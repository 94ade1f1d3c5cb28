// Heaps in huge pages and on NUMA nodes: as far as this machine has them, and what is said where
// not.
#include <thread>

#include <gtest/gtest.h>

#include <towpath/shmem/context.h>
#include <towpath/shmem/job.h>
#include <towpath/sys/numa_placement.h>
#include <towpath/sys/shared_pages.h>

namespace towpath::shmem {
namespace {

constexpr std::uint64_t kHugePage = 2 << 20;

/// Two PEs in threads, each of which puts into the other's heap; what PE 0's heap lies in.
Result<memory::Placement> put_in_heaps(const HeapPages& pages) {
  TOWPATH_TRY(const JobFiles files,
              create_job({.pes = 2, .heap_bytes = 2 * kHugePage, .huge_pages = pages.huge}));
  Result<memory::Placement> placement = memory::Placement();
  std::vector<std::jthread> threads;
  for (int pe = 0; pe < 2; ++pe)
    threads.emplace_back([&, pe] {
      auto context =
          Context::open({.my_pe = pe, .pes = 2, .files = *duplicate(files), .pages = pages});
      if (pe == 0 && context.ok()) placement = context->heap_placement();
      if (pe == 0 && !context.ok()) placement = context.status();
      if (!context.ok()) return;
      auto words = context->allocate<std::uint64_t>(3 * kHugePage / 2 / 8,
                                                    {.alignment = 4096, .zeroed = true});
      ASSERT_TRUE(words.ok()) << words.status().to_string();
      const std::uint64_t last = words->size() - 1;
      EXPECT_TRUE(words->p({.pe = 1 - pe, .index = last}, 7 + pe).ok());
      EXPECT_TRUE(context->barrier().ok());
      EXPECT_EQ(words->local()[last], 8u - pe);
      if (context->my_pe() == 0 && placement->node) {
        const auto lies = sys::pages_by_node(std::as_writable_bytes(words->local()), 4096);
        ASSERT_TRUE(lies.ok()) << lies.status().to_string();
        EXPECT_EQ(lies->size(), 1u);
        EXPECT_EQ(lies->begin()->first, *placement->node);
      }
      EXPECT_TRUE(context->finalize().ok());
    });
  threads.clear();
  return placement;
}

TEST(HeapMemoryTest, ordinary_pages_unless_others_are_asked_for) {
  const auto placement = put_in_heaps({});
  ASSERT_TRUE(placement.ok()) << placement.status().to_string();
  EXPECT_EQ(placement->pages, sys::PageKind::ordinary);
  EXPECT_FALSE(placement->node.has_value());
  EXPECT_EQ(placement->note, "");
}

TEST(HeapMemoryTest, transparent_pages_are_had_or_it_is_said_why_not) {
  const auto placement = put_in_heaps({.huge = sys::HugePages::best_effort});
  ASSERT_TRUE(placement.ok()) << placement.status().to_string();
  EXPECT_EQ(placement->pages == sys::PageKind::transparent, placement->note.empty())
      << placement->note;
}

TEST(HeapMemoryTest, reserved_pages_are_had_or_there_is_no_job) {
  const auto free = sys::choose_reserved_pages({.size_bytes = 2 * kHugePage, .count = 2});
  const auto placement = put_in_heaps({.huge = sys::HugePages::required});
  ASSERT_EQ(placement.code(), free.code()) << placement.status().to_string();
  EXPECT_TRUE(!free.ok() || placement->pages == sys::PageKind::reserved);
  EXPECT_EQ(create_job({.pes = 1, .heap_bytes = 4096, .huge_pages = sys::HugePages::required}).ok(),
            false);
}

TEST(HeapMemoryTest, a_heap_lies_on_its_node_or_it_is_said_why_not) {
  const auto here = put_in_heaps({.node = 0});
  ASSERT_TRUE(here.ok()) << here.status().to_string();
  EXPECT_EQ(here->node.has_value(), here->note.empty()) << here->note;
  const auto nowhere = put_in_heaps({.node = 999});
  ASSERT_TRUE(nowhere.ok());
  EXPECT_FALSE(nowhere->node.has_value());
  EXPECT_NE(nowhere->note, "");
  EXPECT_FALSE(put_in_heaps({.node = 999, .node_rule = memory::NodeRule::required}).ok());
}

}  // namespace
}  // namespace towpath::shmem
