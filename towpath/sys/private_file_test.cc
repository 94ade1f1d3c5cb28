#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/private_file.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::sys {
namespace {

class PrivateFileTest : public ::testing::Test {
 protected:
  mode_t mode_of(const std::string& of) const {
    struct stat about {};
    EXPECT_EQ(::lstat(of.c_str(), &about), 0);
    return about.st_mode & 07777;
  }
  const TemporaryDirectory parent = TemporaryDirectory::create().value();
  const std::string directory = parent.file("towpath");
  const std::string path = cat(directory, "/token");
};

TEST_F(PrivateFileTest, first_one_makes_it_and_all_others_find_it) {
  std::vector<std::string> found(8);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < found.size(); ++i)
      threads.emplace_back(
          [&, i] { found[i] = find_or_make_private_file(path, cat("secret ", i)).value(); });
  }
  EXPECT_EQ(std::set(found.begin(), found.end()).size(), 1U);
  EXPECT_THAT(found[0], ::testing::StartsWith("secret "));
  EXPECT_EQ(mode_of(directory), 0700U);
  EXPECT_EQ(mode_of(path), 0600U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1)
      << "nothing half made is left";
}

TEST_F(PrivateFileTest, what_others_could_read_or_changed_is_refused) {
  ASSERT_EQ(::mkdir(directory.c_str(), 0700), 0);
  std::ofstream(path) << "known to all\n";
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(find_or_make_private_file(path, "fresh").code(), Code::denied);
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(find_or_make_private_file(path, "fresh").value(), "known to all\n");
  ASSERT_EQ(::chmod(directory.c_str(), 0755), 0);
  EXPECT_EQ(find_or_make_private_file(path, "fresh").code(), Code::denied);
}

TEST_F(PrivateFileTest, links_pipes_and_empty_files_are_refused_at_once) {
  std::ofstream(parent.file("elsewhere")) << "a secret of another\n";
  ASSERT_EQ(::mkdir(directory.c_str(), 0700), 0);
  ASSERT_EQ(::symlink(parent.file("elsewhere").c_str(), path.c_str()), 0);
  EXPECT_FALSE(find_or_make_private_file(path, "fresh").ok());
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(find_or_make_private_file(path, "fresh").code(), Code::corrupt);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  std::ofstream(path).flush();
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(find_or_make_private_file(path, "fresh").code(), Code::corrupt);
  const std::string link = parent.file("link");
  ASSERT_EQ(::symlink(directory.c_str(), link.c_str()), 0);
  EXPECT_EQ(find_or_make_private_file(cat(link, "/token"), "fresh").code(), Code::denied);
  EXPECT_EQ(find_or_make_private_file("token", "fresh").code(), Code::invalid_argument);
}

TEST_F(PrivateFileTest, directory_that_another_user_made_first_is_refused_by_name) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make what belongs to another user";
  ASSERT_EQ(::mkdir(directory.c_str(), 0700), 0);
  ASSERT_EQ(::chown(directory.c_str(), 65534, 65534), 0);
  const Status refused = find_or_make_private_file(path, "fresh").status();
  EXPECT_EQ(refused.code(), Code::denied);
  EXPECT_THAT(refused.to_string(), ::testing::HasSubstr("belongs to user 65534"));
}

}  // namespace
}  // namespace towpath::sys
