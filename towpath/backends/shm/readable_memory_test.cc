#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/backends/shm/readable_memory.h>
#include <towpath/core/bytes.h>
#include <towpath/core/descriptor.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>

namespace towpath::backends::shm {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kFew = 1, kMany = 10'000;

Result<sys::Fd> unknown_to_the_kernel(pid_t, const std::string&) {
  return error(Code::unsupported, "as kernels before 6.11 say");
}

struct Look {
  std::size_t regions = 0;
  ReadableMemory::Open* open = sys::open_process_mappings;
};

class ReadableMemoryTest : public ::testing::TestWithParam<Look> {
 protected:
  Code check(const std::byte* at, std::uint64_t length) {
    return readable_.check(address_of(at), length).code();
  }
  sys::Mapping pages_ = *sys::Mapping::anonymous(8 * kPage);
  const bool hole_ = ::mprotect(pages_.data() + 4 * kPage, kPage, PROT_NONE) == 0;
  ReadableMemory readable_{::getpid(), GetParam().regions, GetParam().open};
};

// Each region begins on one page and ends on the next, so that it lies in two mappings, or in one.
TEST_P(ReadableMemoryTest, what_cannot_be_read_is_refused_wherever_it_lies) {
  ASSERT_TRUE(hole_);
  for (int turn = 0; turn < 2; ++turn) {  // unknown, then proven
    for (std::size_t page = 0; page < 7; ++page) {
      const bool is_hole = page == 3 || page == 4;
      EXPECT_EQ(check(pages_.data() + page * kPage + 64, kPage),
                is_hole ? Code::out_of_range : Code::ok)
          << "page " << page;
    }
  }
  EXPECT_EQ(readable_.check(kPage, 1).code(), Code::out_of_range) << "below all mappings";
}

// A file ends where it ends, whatever its mapping says: each region of it is read.
TEST_P(ReadableMemoryTest, one_region_of_a_file_proves_nothing_of_the_others) {
  const auto file = *sys::create_sealed_memfd("test", kPage);
  const void* const mapped = ::mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto* const begin = static_cast<const std::byte*>(mapped);
  ReadableMemory readable(::getpid(), GetParam().regions, GetParam().open);
  EXPECT_TRUE(readable.check(address_of(begin), kPage).ok());
  EXPECT_EQ(readable.check(address_of(begin + kPage), kPage).code(), Code::out_of_range);
  ::munmap(const_cast<void*>(mapped), 2 * kPage);
}

INSTANTIATE_TEST_SUITE_P(Regions, ReadableMemoryTest,
                         ::testing::Values(Look{kFew}, Look{kMany},
                                           Look{kMany, unknown_to_the_kernel}));

}  // namespace
}  // namespace towpath::backends::shm
