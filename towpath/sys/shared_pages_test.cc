#include <fstream>

#include <gtest/gtest.h>

#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/shared_pages.h>
#include <towpath/sys/system_file.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/kernel_calls.h>

namespace towpath::sys {
namespace {

constexpr std::uint64_t kSmallPage = 2 << 20, kLargePage = 1 << 30;

/// A /sys as given.
class SharedPagesTest : public ::testing::Test {
 protected:
  void write(const std::string& folder, const std::string& name, const std::string& text) {
    SystemFileSystem files;
    const std::string path = directory_.file("kernel/mm/" + folder);
    ASSERT_TRUE(files.make_directories(path).ok());
    std::ofstream(path + "/" + name) << text;
  }
  void pool(const std::string& name, const std::string& free) {
    write("hugepages/" + name, "nr_hugepages", free);
    write("hugepages/" + name, "free_hugepages", free);
  }
  Result<HugePagePool> choose(std::uint64_t size_bytes, std::uint64_t count) const {
    return choose_reserved_pages(
        {.size_bytes = size_bytes, .count = count, .sys = directory_.path()});
  }
  Status ask() {
    const auto memory = Mapping::anonymous(kSmallPage).value();
    return ask_for_transparent_pages(memory.bytes(), directory_.path());
  }

  TemporaryDirectory directory_ = TemporaryDirectory::create().value();
};

TEST_F(SharedPagesTest, the_smallest_pages_that_are_enough_are_chosen) {
  EXPECT_EQ(choose(kSmallPage, 1).code(), Code::unsupported);
  pool("hugepages-2048kB", "7\n");
  pool("hugepages-1048576kB", "4\n");
  EXPECT_EQ(choose(2 * kSmallPage, 3)->page_bytes, kSmallPage);
  EXPECT_EQ(choose(2 * kSmallPage, 4).code(), Code::exhausted);
  EXPECT_EQ(choose(kLargePage, 4)->page_bytes, kLargePage);
  EXPECT_EQ(choose(kLargePage, 5).code(), Code::exhausted);
  EXPECT_EQ(choose(kSmallPage + 4096, 1).code(), Code::invalid_argument);
}

TEST_F(SharedPagesTest, transparent_ones_are_wished_where_the_kernel_makes_them) {
  EXPECT_EQ(ask().code(), Code::unsupported);
  for (const char* off : {"always within_size advise [never] deny force", "always never [deny]"}) {
    write("transparent_hugepage", "shmem_enabled", off);
    EXPECT_EQ(ask().code(), Code::unsupported) << off;
  }
  write("transparent_hugepage", "shmem_enabled", "always within_size [advise] never deny force");
  const Status asked = ask();
  EXPECT_TRUE(asked.ok() || asked.code() == Code::invalid_argument)  // a kernel without them
      << asked.to_string();
}

TEST_F(SharedPagesTest, a_memfd_lies_in_whole_reserved_pages_or_is_refused) {
  EXPECT_EQ(create_sealed_memfd("test", kSmallPage + 4096, kSmallPage).code(),
            Code::invalid_argument);
  EXPECT_EQ(create_sealed_memfd("test", kSmallPage, kSmallPage - 1).code(), Code::invalid_argument);
  const auto here = choose_reserved_pages({.size_bytes = kSmallPage});
  const auto memfd = create_sealed_memfd("test", kSmallPage, kSmallPage);
  if (!here.ok()) {
    EXPECT_FALSE(memfd.ok());
    return;
  }
  if (const auto why = testing::why_no_huge_pages(); !why.empty()) GTEST_SKIP() << why;
  ASSERT_TRUE(memfd.ok()) << memfd.status().to_string();
  EXPECT_TRUE(check_sealed(memfd->get(), kSmallPage).ok());
  const auto mapped = Mapping::of_file({.fd = memfd->get(), .size_bytes = kSmallPage});
  ASSERT_TRUE(mapped.ok());
  mapped->data()[kSmallPage - 1] = std::byte{1};
}

}  // namespace
}  // namespace towpath::sys
