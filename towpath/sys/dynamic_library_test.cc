#include <gtest/gtest.h>

#include <towpath/sys/dynamic_library.h>

namespace towpath::sys {
namespace {

TEST(DynamicLibraryTest, a_library_that_every_process_has_reports_its_functions_and_its_file) {
  const auto libc = DynamicLibrary::open("libc.so.6");
  ASSERT_TRUE(libc.ok()) << libc.status().to_string();
  EXPECT_TRUE(libc->was_loaded());
  EXPECT_NE(libc->find("getpid"), nullptr);
  EXPECT_EQ(libc->find("towpath_has_no_such_function"), nullptr);
  EXPECT_TRUE(libc->path().starts_with('/')) << libc->path();
}

TEST(DynamicLibraryTest, what_is_not_there_is_unsupported_in_the_loaders_words) {
  const auto none = DynamicLibrary::open("libtowpath-no-such.so.9");
  EXPECT_EQ(none.code(), Code::unsupported);
  EXPECT_NE(none.status().message().find("libtowpath-no-such.so.9"), std::string_view::npos);
  EXPECT_NE(none.status().message().find("No such file"), std::string_view::npos)
      << none.status().to_string();
}

}  // namespace
}  // namespace towpath::sys
