#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/backend/path_mode.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/child.h>

namespace towpath::backend {
namespace {

using ::testing::HasSubstr;

TEST(PathModeTest, every_option_is_read) {
  const auto mode = PathMode::parse("rw,direct,sync,noatime,create:/cache/a:b,c");
  ASSERT_TRUE(mode.ok() && mode->has_value());
  EXPECT_TRUE((*mode)->writable && (*mode)->direct && (*mode)->sync && (*mode)->noatime);
  EXPECT_TRUE((*mode)->create);
  EXPECT_EQ((*mode)->path, "/cache/a:b,c");
  const auto plain = PathMode::parse("ro:x");
  ASSERT_TRUE(plain.ok() && plain->has_value());
  EXPECT_FALSE((*plain)->writable || (*plain)->direct || (*plain)->sync || (*plain)->create);
}

TEST(PathModeTest, other_texts_are_plain_paths) {
  for (const char* text : {"", "r", "ro", "rw", "/cache/x", "rw_data:1", "rows,x:y", "./rw:x",
                           "RW:x", "wr:x", "a,direct:x"}) {
    const auto mode = PathMode::parse(text);
    ASSERT_TRUE(mode.ok()) << text;
    EXPECT_FALSE(mode->has_value()) << text;
  }
}

TEST(PathModeTest, misspelt_modes_are_refused_and_not_taken_for_paths) {
  for (const std::string text :
       {"rw,:x", "rw,direkt:x", "rw,direct", "rw:", "ro,create:x", "rw,direct,,sync:x", "rw,"}) {
    const auto mode = PathMode::parse(text);
    EXPECT_EQ(mode.code(), Code::invalid_argument) << text;
    EXPECT_THAT(std::string(mode.status().hint()), HasSubstr("ro:PATH")) << text;
  }
  EXPECT_EQ(PathMode::parse(std::string("rw:a\0b", 6)).code(), Code::invalid_argument);
  EXPECT_EQ(open_plain_path(std::string("a\0b", 3)).code(), Code::invalid_argument);
}

TEST(PathModeTest, files_are_opened_as_the_mode_says) {
  const auto directory = std::move(*sys::TemporaryDirectory::create());
  const std::string path = directory.file("data");
  EXPECT_EQ(open_path({.writable = true, .path = path}).code(), Code::not_found);
  const auto made = open_path({.writable = true, .sync = true, .create = true, .path = path});
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  struct stat info {};
  ASSERT_EQ(::fstat(made->fd.get(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  const int flags = ::fcntl(made->fd.get(), F_GETFL);
  EXPECT_EQ(flags & (O_ACCMODE | O_DSYNC | O_NONBLOCK | O_DIRECT), O_RDWR | O_DSYNC);
  EXPECT_EQ(::fcntl(made->fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  const auto reader = open_path({.noatime = true, .path = path});
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(::fcntl(reader->fd.get(), F_GETFL) & (O_ACCMODE | O_NOATIME), O_RDONLY | O_NOATIME);
}

TEST(PathModeTest, o_direct_is_given_up_only_where_it_is_refused_and_that_is_reported) {
  const auto opened = open_path({.direct = true, .path = "/proc/self/status"});
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  EXPECT_THAT(opened->direct_refusal, HasSubstr("EINVAL"));
  EXPECT_EQ(open_path({.direct = true, .path = "/nowhere/x"}).code(), Code::not_found);
}

TEST(PathModeTest, a_plain_path_is_opened_for_what_is_allowed) {
  const auto directory = std::move(*sys::TemporaryDirectory::create());
  const std::string path = directory.file("data");
  const sys::Fd made(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const auto writer = open_plain_path(path);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(::fcntl(writer->fd.get(), F_GETFL) & O_ACCMODE, O_RDWR);
  EXPECT_EQ(open_plain_path(directory.file("none")).code(), Code::not_found);
}

TEST(PathModeTest, who_may_only_read_gets_a_plain_path_for_reading) {
  const auto directory = std::move(*sys::TemporaryDirectory::create());
  const std::string path = directory.file("data");
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  const sys::Fd made(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::fchmod(made.get(), 0444), 0);
  const auto body = [&] {
    if (!sys::testing::become_nobody(0)) GTEST_SKIP() << sys::testing::kNoNobody;
    const auto reader = open_plain_path(path);
    ASSERT_TRUE(reader.ok()) << reader.status().to_string();
    EXPECT_EQ(::fcntl(reader->fd.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
    EXPECT_EQ(open_path({.writable = true, .path = path}).code(), Code::denied);
  };
  EXPECT_TRUE(sys::testing::passes_in_child(body));
}

TEST(PathModeTest, a_pipe_holds_nobody_up) {
  const auto directory = std::move(*sys::TemporaryDirectory::create());
  const std::string path = directory.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(open_path({.path = path}).ok());
}

}  // namespace
}  // namespace towpath::backend
