#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <towpath/agent/read_only_memory.h>
#include <towpath/sys/mapping.h>

namespace towpath::agent {
namespace {

int times_asked = 0;

Result<sys::Fd> open_something(pid_t, const std::string&) {
  ++times_asked;
  return sys::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

template <Code kWhy>
Result<sys::Fd> refuse(pid_t, const std::string&) {
  ++times_asked;
  return error(kWhy, "as before Linux 6.11, or without a free descriptor");
}

class ReadOnlyMemoryTest : public ::testing::TestWithParam<bool> {
 protected:
  /// Of some pages of the mapping.
  RegionDescriptor pages(std::uint64_t first, std::uint64_t count) const {
    return {.address = address_of(mapping_.data()) + first * sys::page_size(),
            .length = count * sys::page_size()};
  }
  bool holds(const RegionDescriptor& region) {
    ReadOnlyMemory fresh(mappings_);
    fresh.open_for(region);
    memory_.open_for(region);
    EXPECT_EQ(memory_.holds(region), fresh.holds(region)) << "what was asked before is remembered";
    return fresh.holds(region);
  }

  sys::Mapping mapping_ = *sys::Mapping::anonymous(8 * sys::page_size());
  OwnMappings mappings_{GetParam() ? sys::open_process_mappings : refuse<Code::unsupported>};
  ReadOnlyMemory memory_{mappings_};
};

TEST_P(ReadOnlyMemoryTest, holds_what_cannot_be_written_at_all) {
  ASSERT_EQ(::mprotect(mapping_.data() + 2 * sys::page_size(), 2 * sys::page_size(), PROT_READ), 0);
  ASSERT_EQ(::mprotect(mapping_.data() + 4 * sys::page_size(), sys::page_size(), PROT_NONE), 0);
  EXPECT_FALSE(holds(pages(0, 2)));
  EXPECT_TRUE(holds(pages(2, 2)));
  EXPECT_TRUE(holds(pages(3, 1)));
  EXPECT_TRUE(holds(pages(2, 3))) << "two mappings, and none can be written";
  EXPECT_FALSE(holds(pages(1, 2))) << "some of it can be written";
  EXPECT_FALSE(holds(pages(2, 4))) << "some of it can be written";
}

TEST_P(ReadOnlyMemoryTest, knows_nothing_of_what_is_not_mapped_or_not_asked_for) {
  EXPECT_FALSE(holds({.address = 4096, .length = 4096}));
  EXPECT_FALSE(holds({.address = UINT64_MAX - 10, .length = 100}));
  ASSERT_EQ(::mprotect(mapping_.data(), mapping_.size(), PROT_READ), 0);
  RegionDescriptor own = pages(0, 8);
  own.may_fault = false;
  EXPECT_FALSE(holds(own));
  RegionDescriptor file = pages(0, 8);
  file.kind = MemoryKind::disk;
  EXPECT_FALSE(holds(file));
}

// The mappings of a large process are many, and a caller may hold a lock.
TEST_P(ReadOnlyMemoryTest, nothing_is_opened_by_a_question) {
  ASSERT_EQ(::mprotect(mapping_.data(), mapping_.size(), PROT_READ), 0);
  RegionDescriptor own = pages(0, 8);
  own.may_fault = false;
  memory_.open_for(own);
  EXPECT_FALSE(memory_.holds(pages(0, 8)));
  memory_.open_for(pages(0, 8));
  EXPECT_TRUE(memory_.holds(pages(0, 8)));
}

// Four system calls of a registration's five were for the file.
TEST(OwnMappingsTest, file_is_opened_once_unless_that_failed) {
  times_asked = 0;
  OwnMappings own(open_something);
  EXPECT_NE(own.file(), nullptr);
  EXPECT_NE(own.file(), nullptr);
  EXPECT_EQ(times_asked, 1);
  OwnMappings old(refuse<Code::unsupported>);
  EXPECT_EQ(old.file(), nullptr);
  EXPECT_EQ(old.file(), nullptr);
  EXPECT_EQ(times_asked, 2) << "the kernel stays as old as it is";
  OwnMappings crowded(refuse<Code::exhausted>);
  EXPECT_EQ(crowded.file(), nullptr);
  EXPECT_EQ(crowded.file(), nullptr);
  EXPECT_EQ(times_asked, 4) << "descriptors come free";
}

INSTANTIATE_TEST_SUITE_P(Kernels, ReadOnlyMemoryTest, ::testing::Bool());

}  // namespace
}  // namespace towpath::agent
