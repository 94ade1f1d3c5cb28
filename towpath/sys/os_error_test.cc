#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/sys/os_error.h>

namespace towpath::sys {
namespace {

using ::testing::HasSubstr;

TEST(OsErrorTest, every_errno_of_the_table_has_its_code) {
  const std::pair<int, Code> table[] = {
      {ENOSPC, Code::exhausted},       {ENOMEM, Code::exhausted},
      {EMFILE, Code::exhausted},       {EDQUOT, Code::exhausted},
      {EACCES, Code::denied},          {EPERM, Code::denied},
      {ENOENT, Code::not_found},       {ESRCH, Code::not_found},
      {EEXIST, Code::already_exists},  {EINVAL, Code::invalid_argument},
      {EOPNOTSUPP, Code::unsupported}, {ENOSYS, Code::unsupported},
      {ENOTTY, Code::unsupported},     {ECONNREFUSED, Code::unavailable},
      {EAGAIN, Code::unavailable},     {ETIMEDOUT, Code::unavailable},
      {EPIPE, Code::peer_lost},        {ECONNRESET, Code::peer_lost},
      {ECANCELED, Code::cancelled},    {EIO, Code::io_error},
  };
  for (const auto& [value, code] : table)
    EXPECT_EQ(code_of_errno(value), code) << errno_text(value);
}

TEST(OsErrorTest, the_message_ends_with_text_name_and_number) {
  const Status status = os_error(ENOSPC, "cannot write 'x'");
  EXPECT_EQ(status.message(), "cannot write 'x': No space left on device (ENOSPC, 28)");
  EXPECT_THAT(std::string(status.hint()), HasSubstr("free space"));
}

TEST(OsErrorTest, a_write_that_lacks_memory_does_not_lack_space) {
  EXPECT_EQ(write_error(ENOMEM, "x").code(), Code::unavailable);
  EXPECT_EQ(write_error(ENOBUFS, "x").code(), Code::unavailable);
  EXPECT_EQ(write_error(ENOSPC, "x").code(), Code::exhausted);
  EXPECT_EQ(write_error(ENOMEM, "x").message(), os_error(ENOMEM, "x").message());
  EXPECT_EQ(write_error(ENOMEM, "x").hint(), os_error(ENOMEM, "x").hint());
}

TEST(OsErrorTest, a_given_hint_wins) {
  EXPECT_EQ(os_error(ENOSPC, "x", "use another disk").hint(), "use another disk");
}

TEST(OsErrorTest, an_unknown_errno_keeps_its_number) {
  EXPECT_EQ(errno_text(100000), "unknown error (errno, 100000)");
}

TEST(OsErrorTest, the_line_is_the_callers) {
  const Status status = os_error(EIO, "x");
  EXPECT_THAT(status.where().file_name(), HasSubstr("os_error_test.cc"));
}

}  // namespace
}  // namespace towpath::sys
