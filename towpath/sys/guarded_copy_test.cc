#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/core/bytes.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/guarded_copy.h>
#include <towpath/sys/mapping.h>

namespace towpath::sys {
namespace {

constexpr std::uint64_t kPages = 128;
using Direction = GuardedCopy::Direction;

/// Memory, and bytes of our own that are copied there and back.
class GuardedCopyTest : public ::testing::Test {
 protected:
  GuardedCopyTest() {
    for (std::size_t i = 0; i < own_.size(); ++i)
      own_[i] = static_cast<std::byte>(i * 2654435761U >> 24U | 1U);  // none is 0
  }
  std::uint64_t page(std::uint64_t index) const {
    return address_of(memory_.data()) + index * page_size();
  }
  void protect(std::uint64_t index, int how) {
    ASSERT_EQ(::mprotect(memory_.data() + index * page_size(), page_size(), how), 0);
  }
  /// Equal extents side by side, from the begin of the memory; their tags are 0, 1, ...
  std::vector<std::uint32_t> copy(Direction direction, std::uint64_t length,
                                  std::uint64_t gap = 0) {
    guard_.begin(direction);
    const std::uint64_t count = memory_.size() / (length + gap);
    for (std::uint32_t i = 0; i < count; ++i)
      guard_.add({.own = &own_[i * length],
                  .address = page(0) + i * (length + gap),
                  .length = length,
                  .tag = i});
    const auto faulty = guard_.finish();
    return {faulty.begin(), faulty.end()};
  }

  Mapping memory_ = *Mapping::anonymous(kPages * page_size());
  Bytes own_ = Bytes(kPages * page_size());
  GuardedCopy guard_;
};

TEST_F(GuardedCopyTest, copies_extents_of_every_length_both_ways) {
  for (const std::uint64_t length : {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{64},
                                     page_size(), 3 * page_size() + 5, kPages * page_size()}) {
    const std::uint64_t gap = length < kPages * page_size() ? 3 : 0;
    std::ranges::fill(memory_.bytes(), std::byte{0});
    const Bytes before = own_;
    EXPECT_TRUE(copy(Direction::into_memory, length, gap).empty());
    for (std::uint64_t i = 0; i < memory_.size() / (length + gap); ++i)
      ASSERT_TRUE(std::ranges::equal(bytes_at(page(0) + i * (length + gap), length),
                                     ConstByteSpan(before).subspan(i * length, length)));
    std::ranges::fill(own_, std::byte{0});
    EXPECT_TRUE(copy(Direction::out_of_memory, length, gap).empty());
    const std::uint64_t bytes = memory_.size() / (length + gap) * length;
    EXPECT_TRUE(
        std::ranges::equal(ConstByteSpan(own_).first(bytes), ConstByteSpan(before).first(bytes)));
    own_ = before;
  }
}

TEST_F(GuardedCopyTest, what_cannot_be_written_is_named_and_the_others_are_there) {
  protect(3, PROT_READ);
  protect(100, PROT_NONE);
  EXPECT_EQ(copy(Direction::into_memory, page_size()), (std::vector<std::uint32_t>{3, 100}));
  EXPECT_TRUE(std::ranges::equal(bytes_at(page(4), 96 * page_size()),
                                 ConstByteSpan(own_).subspan(4 * page_size(), 96 * page_size())));
  EXPECT_EQ(bytes_at(page(3), 1).front(), std::byte{0}) << "nothing lands there";
  EXPECT_EQ(copy(Direction::into_memory, 100 * page_size()), (std::vector<std::uint32_t>{0}))
      << "an extent of several batches is named once";
}

TEST_F(GuardedCopyTest, what_cannot_be_read_comes_as_zeros) {
  std::ranges::fill(memory_.bytes(), std::byte{5});
  protect(2, PROT_NONE);
  EXPECT_EQ(copy(Direction::out_of_memory, page_size() / 2), (std::vector<std::uint32_t>{4, 5}));
  for (std::uint64_t i = 0; i < own_.size(); ++i)
    ASSERT_EQ(own_[i], i / page_size() == 2 ? std::byte{0} : std::byte{5}) << i;
}

/// System calls that read, of this thread: what goes into memory is read from the stage.
std::uint64_t reading_calls() {
  std::ifstream io("/proc/thread-self/io");
  std::string name;
  std::uint64_t value = 0;
  while (io >> name >> value) {
    if (name == "syscr:") return value;
  }
  return 0;
}

TEST_F(GuardedCopyTest, what_has_faulted_is_tried_no_further) {
  if (reading_calls() == 0) GTEST_SKIP() << "/proc/thread-self/io does not count system calls here";
  protect(0, PROT_READ);
  const std::uint64_t before = reading_calls();
  const std::uint64_t costs = reading_calls() - before;  // of asking
  guard_.begin(Direction::into_memory);
  for (std::uint64_t i = 0; i < page_size(); ++i)
    guard_.add({.own = &own_[i], .address = page(0) + i, .length = 1, .tag = 7});
  guard_.add({.own = own_.data(), .address = page(1), .length = 1, .tag = 8});
  EXPECT_TRUE(std::ranges::equal(guard_.finish(), std::vector<std::uint32_t>{7}));
  EXPECT_LE(reading_calls() - before - 2 * costs, 3U) << page_size() << " extents";
  EXPECT_EQ(bytes_at(page(1), 1).front(), own_.front()) << "others are copied";
}

TEST_F(GuardedCopyTest, file_that_was_cut_is_no_signal) {
  const Fd file(::memfd_create("cut", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(4 * page_size())), 0);
  auto mapped = Mapping::of_file({.fd = file.get(), .size_bytes = 4 * page_size()});
  ASSERT_TRUE(mapped.ok());
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(page_size())), 0);
  for (const Direction direction : {Direction::into_memory, Direction::out_of_memory}) {
    guard_.begin(direction);
    for (std::uint32_t i = 0; i < 4; ++i)
      guard_.add({.own = own_.data(),
                  .address = address_of(mapped->data()) + i * page_size(),
                  .length = 8,
                  .tag = i});
    EXPECT_TRUE(std::ranges::equal(guard_.finish(), std::vector<std::uint32_t>{1, 2, 3}));
  }
}

}  // namespace
}  // namespace towpath::sys
