#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/sys/fork_mark.h>
#include <towpath/sys/testing/kernel_calls.h>

namespace towpath::sys {
namespace {

TEST(ForkMarkTest, is_inherited_by_children_and_their_children_alone) {
  if (const auto why = testing::why_no_wipe_on_fork(); !why.empty()) GTEST_SKIP() << why;
  const ForkMark mine;
  EXPECT_FALSE(mine.is_inherited());
  const pid_t child = ::fork();
  if (child == 0) {
    const ForkMark of_child;
    const bool right = mine.is_inherited() && !of_child.is_inherited();
    const pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(mine.is_inherited() && of_child.is_inherited() ? 0 : 1);
    int status = 1;
    ::waitpid(grandchild, &status, 0);
    ::_exit(right && status == 0 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(mine.is_inherited());
}

}  // namespace
}  // namespace towpath::sys
