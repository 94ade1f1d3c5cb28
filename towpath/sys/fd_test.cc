#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/sys/fd.h>

namespace towpath::sys {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

Fd open_null() { return Fd(::open("/dev/null", O_RDWR | O_CLOEXEC)); }

TEST(FdTest, closes_when_it_dies) {
  int number = -1;
  {
    const Fd fd = open_null();
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(FdTest, moving_leaves_one_owner) {
  Fd first = open_null();
  const int number = first.get();
  Fd second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(second.get(), number);
  Fd third = open_null();
  const int closed = third.get();
  third = std::move(second);
  EXPECT_FALSE(is_open(closed));
  EXPECT_EQ(third.get(), number);
  Fd& same = third;
  third = std::move(same);
  EXPECT_TRUE(is_open(number));
}

TEST(FdTest, release_gives_the_descriptor_away) {
  Fd fd = open_null();
  const int number = fd.release();
  EXPECT_FALSE(fd);
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(FdTest, a_duplicate_is_another_descriptor_that_closes_on_exec) {
  const Fd fd = open_null();
  auto copy = fd.duplicate();
  ASSERT_TRUE(copy.ok()) << copy.status().to_string();
  EXPECT_NE(copy->get(), fd.get());
  EXPECT_EQ(::fcntl(copy->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(FdTest, nothing_open_cannot_be_duplicated) {
  EXPECT_EQ(Fd().duplicate().code(), Code::not_ready);
}

}  // namespace
}  // namespace towpath::sys
