#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <towpath/sys/huge_pages.h>
#include <towpath/sys/page_allocator.h>
#include <towpath/sys/system_file.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/kernel_calls.h>

namespace towpath::sys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kTwoMiB = 2 << 20;

/// A /sys with pools as given.
class HugePagesTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::string full = directory_.file(path);
    ASSERT_TRUE(files_.make_directories(full.substr(0, full.rfind('/'))).ok());
    auto file = files_.open(full, {.writable = true, .create = true, .truncate = true});
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(write_exactly(**file, as_bytes(text), 0).ok());
  }
  void pool(const std::string& name, const std::string& pages, const std::string& free) {
    write("kernel/mm/hugepages/" + name + "/nr_hugepages", pages);
    write("kernel/mm/hugepages/" + name + "/free_hugepages", free);
  }
  MapPages wanted(HugePages huge, std::uint64_t size_bytes = kTwoMiB) const {
    return {.size_bytes = size_bytes, .huge = huge, .sys = directory_.path()};
  }

  TemporaryDirectory directory_ = TemporaryDirectory::create().value();
  SystemFileSystem files_;
};

TEST_F(HugePagesTest, pools_are_reported_in_order_of_size) {
  pool("hugepages-1048576kB", "4\n", "1\n");
  pool("hugepages-2048kB", "100\n", "70\n");
  EXPECT_THAT(huge_page_pools(directory_.path()).value(),
              ElementsAre(HugePagePool{kTwoMiB, 100, 70}, HugePagePool{1 << 30, 4, 1}));
}

TEST_F(HugePagesTest, a_kernel_without_them_has_no_pools) {
  EXPECT_TRUE(huge_page_pools(directory_.path())->empty());
  EXPECT_EQ(map_pages(wanted(HugePages::required)).code(), Code::unsupported);
}

TEST_F(HugePagesTest, what_is_no_pool_is_corrupt) {
  pool("hugepages-2048kB", "many\n", "1\n");
  EXPECT_EQ(huge_page_pools(directory_.path()).code(), Code::corrupt);
}

TEST_F(HugePagesTest, required_and_too_few_says_how_many_there_are) {
  pool("hugepages-2048kB", "3\n", "1\n");
  const Status status = map_pages(wanted(HugePages::required, 2 * kTwoMiB)).status();
  EXPECT_EQ(status.code(), Code::exhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 of 2 MiB"));
  EXPECT_THAT(std::string(status.hint()), HasSubstr("vm.nr_hugepages"));
}

TEST_F(HugePagesTest, best_effort_falls_back_and_says_why) {
  pool("hugepages-2048kB", "0\n", "0\n");
  write("kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  const auto pages = map_pages(wanted(HugePages::best_effort, 10000));
  ASSERT_TRUE(pages.ok()) << pages.status().to_string();
  EXPECT_EQ(pages->kind, PageKind::ordinary);
  EXPECT_EQ(pages->mapping.size(), 10000u);
  EXPECT_THAT(pages->why_not, HasSubstr("0 of 2 MiB"));
  EXPECT_THAT(pages->why_not, HasSubstr("transparent ones are off"));
}

TEST_F(HugePagesTest, best_effort_asks_for_transparent_ones) {
  auto spare = Mapping::anonymous(kTwoMiB).value();
  if (::madvise(spare.bytes().data(), spare.size(), MADV_HUGEPAGE) != 0)
    GTEST_SKIP() << "madvise(MADV_HUGEPAGE): " << std::strerror(errno);
  write("kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const auto pages = map_pages(wanted(HugePages::best_effort));
  ASSERT_TRUE(pages.ok());
  ASSERT_EQ(pages->kind, PageKind::transparent) << pages->why_not;
  EXPECT_EQ(pages->page_bytes, page_size());
}

TEST_F(HugePagesTest, off_is_ordinary_memory) {
  const auto pages = map_pages(wanted(HugePages::off, 5));
  ASSERT_TRUE(pages.ok());
  EXPECT_EQ(pages->kind, PageKind::ordinary);
  EXPECT_EQ(pages->why_not, "");
}

TEST_F(HugePagesTest, wrong_sizes_are_refused) {
  EXPECT_EQ(map_pages({}).code(), Code::invalid_argument);
  EXPECT_EQ(
      map_pages({.size_bytes = 1, .huge = HugePages::required, .huge_page_bytes = 3000}).code(),
      Code::invalid_argument);
  EXPECT_EQ(Mapping::reserved_pages(kTwoMiB + 1, kTwoMiB).code(), Code::invalid_argument);
}

TEST_F(HugePagesTest, pages_that_a_pool_promised_and_the_kernel_has_not_are_exhausted) {
  pool("hugepages-2048kB", "1000000\n", "1000000\n");  // 2 TB that nobody has
  const auto pages = map_pages(wanted(HugePages::required, 900000 * kTwoMiB));
  EXPECT_EQ(pages.code(), Code::exhausted);
  EXPECT_FALSE(pages.status().cause().ok());
}

TEST(PageAllocatorTest, large_arrays_begin_at_huge_pages_and_small_ones_at_cache_lines) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, kTwoMiB, 3 * kTwoMiB + 1}) {
    PageAllocator<std::byte> allocator;
    std::byte* const array = allocator.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array) % (bytes >= kTwoMiB ? kTwoMiB : 64), 0u);
    array[bytes - 1] = std::byte{7};
    allocator.deallocate(array, bytes);
  }
#if !defined(TOWPATH_ASAN) && !defined(__SANITIZE_THREAD__)  // their operator new ends the program
  EXPECT_THROW((void)allocate_pages(SIZE_MAX), std::bad_alloc);
#endif
}

TEST(ReservedPagesTest, are_had_where_the_machine_has_some) {
  const auto pools = huge_page_pools().value();
  if (pools.empty() || pools[0].free_pages == 0)
    GTEST_SKIP() << "this machine has reserved no huge pages (sysctl vm.nr_hugepages=4)";
  if (const auto why = testing::why_no_huge_pages(); !why.empty()) GTEST_SKIP() << why;
  const auto pages = map_pages({.size_bytes = 5, .huge = HugePages::required});
  ASSERT_TRUE(pages.ok()) << pages.status().to_string();
  EXPECT_EQ(pages->kind, PageKind::reserved);
  EXPECT_EQ(pages->mapping.size(), pools[0].page_bytes) << "rounded up";
  std::memset(pages->mapping.data(), 7, pages->mapping.size());
  EXPECT_EQ(huge_page_pools()->at(0).free_pages, pools[0].free_pages - 1);
}

}  // namespace
}  // namespace towpath::sys
