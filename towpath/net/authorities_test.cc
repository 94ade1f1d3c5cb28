#include <array>

#include <gtest/gtest.h>

#include <towpath/net/authorities.h>

namespace towpath::net {
namespace {

TEST(AuthoritiesTest, first_file_that_is_there_is_taken) {
  const std::array<const char*, 3> files{"/nothing/here.crt", "/proc/self/status",
                                         "/proc/self/stat"};
  EXPECT_EQ(first_authority_file(files), "/proc/self/status");
}

TEST(AuthoritiesTest, without_a_file_none_is_named) {
  const std::array<const char*, 1> files{"/nothing/here.crt"};
  EXPECT_EQ(first_authority_file(files), "");
}

}  // namespace
}  // namespace towpath::net
