#include "tools/run/lines.h"

#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace towpath::tools {
namespace {

class LinesTest : public ::testing::Test {
 protected:
  ~LinesTest() override { (void)std::fclose(out_); }

  std::string written() {
    std::string all(static_cast<std::size_t>(std::ftell(out_)), '\0');
    std::rewind(out_);
    EXPECT_EQ(std::fread(all.data(), 1, all.size(), out_), all.size());
    return all;
  }

  std::FILE* const out_ = std::tmpfile();
};

TEST_F(LinesTest, each_line_has_the_prefix_and_the_last_one_gets_an_end) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  sys::Fd writer(ends[1]);
  Lines lines(sys::Fd(ends[0]), out_, "[3] ");
  ASSERT_EQ(::write(writer.get(), "a\nb", 3), 3);
  EXPECT_TRUE(lines.pass_on());
  ASSERT_EQ(::write(writer.get(), "c\nd", 3), 3);
  EXPECT_TRUE(lines.pass_on());
  writer.reset();
  EXPECT_FALSE(lines.pass_on());
  EXPECT_EQ(written(), "[3] a\n[3] bc\n[3] d\n");
}

// As one that writes faster than it is read: its job must hear signals, and other PEs.
TEST_F(LinesTest, one_that_writes_without_end_and_without_lines_is_passed_on_piece_by_piece) {
  ::alarm(60);  // what hangs must end
  Lines lines(sys::Fd(::open("/dev/zero", O_RDONLY | O_CLOEXEC)), out_, "[0] ");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(lines.pass_on());
  ::alarm(0);
  EXPECT_GE(std::ftell(out_), 3 << 20) << "it is not kept";
}

}  // namespace
}  // namespace towpath::tools
