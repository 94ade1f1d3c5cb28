#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/sys/own_process.h>

namespace towpath::sys {
namespace {

TEST(OwnProcessTest, is_this_one_and_no_child_whatever_it_is_copied_to) {
  const OwnProcess mine;
  EXPECT_TRUE(mine.is_this());
  const pid_t child = ::fork();
  if (child == 0) {
    const OwnProcess copy = mine, of_child;
    ::_exit(!mine.is_this() && !copy.is_this() && of_child.is_this() ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(mine.is_this());
}

}  // namespace
}  // namespace towpath::sys
