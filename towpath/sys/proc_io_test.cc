#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/sys/fd.h>
#include <towpath/sys/proc_io.h>

namespace towpath::sys {
namespace {

constexpr std::string_view kSample =
    "rchar: 10\nwchar: 20\nsyscr: 3\nsyscw: 4\nread_bytes: 50\nwrite_bytes: 60\n"
    "cancelled_write_bytes: 70\n";

TEST(ProcIoTest, every_counter_is_taken_from_its_line) {
  const auto counters = parse_proc_io(kSample);
  ASSERT_TRUE(counters.ok());
  EXPECT_EQ(*counters, (ProcIo{.read_chars = 10,
                               .written_chars = 20,
                               .read_bytes = 50,
                               .written_bytes = 60,
                               .cancelled_write_bytes = 70}));
}

TEST(ProcIoTest, missing_and_broken_counters_are_named) {
  EXPECT_EQ(parse_proc_io("").code(), Code::corrupt);
  std::string text(kSample);
  text.replace(text.find("60"), 2, "6x");
  const auto broken = parse_proc_io(text);
  EXPECT_EQ(broken.code(), Code::corrupt);
  EXPECT_THAT(broken.status().to_string(), ::testing::HasSubstr("write_bytes"));
}

TEST(ProcIoTest, the_kernel_counts_what_this_process_reads) {
  if (::access("/proc/self/io", R_OK) != 0)
    GTEST_SKIP() << "no /proc/self/io: use a kernel with CONFIG_TASK_IO_ACCOUNTING";
  const auto before = read_proc_io();
  ASSERT_TRUE(before.ok()) << before.status().to_string();
  const Fd zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  char buffer[4096];
  ASSERT_EQ(::read(zero.get(), buffer, sizeof buffer), 4096);
  EXPECT_GE(read_proc_io()->read_chars, before->read_chars + 4096);
  EXPECT_EQ(read_proc_io("/nowhere").code(), Code::not_found);
}

}  // namespace
}  // namespace towpath::sys
