#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/sys/memfd.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::sys {
namespace {

using ::testing::HasSubstr;

TEST(MemfdTest, a_sealed_memfd_keeps_its_size_for_ever) {
  auto fd = create_sealed_memfd("pool", 8192);
  ASSERT_TRUE(fd.ok()) << fd.status().to_string();
  EXPECT_TRUE(check_sealed(fd->get(), 8192).ok());
  EXPECT_NE(::ftruncate(fd->get(), 4096), 0);
  EXPECT_NE(::ftruncate(fd->get(), 16384), 0);
  EXPECT_NE(::fcntl(fd->get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_EQ(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(MemfdTest, a_name_of_any_length_is_taken) {
  EXPECT_TRUE(create_sealed_memfd(std::string(1000, 'n'), 1).ok());
}

TEST(MemfdTest, sizes_that_cannot_be_are_refused) {
  EXPECT_EQ(create_sealed_memfd("none", 0).code(), Code::invalid_argument);
  EXPECT_EQ(create_sealed_memfd("vast", UINT64_MAX).code(), Code::invalid_argument);
}

TEST(MemfdTest, a_smaller_memfd_than_promised_is_refused) {
  auto fd = create_sealed_memfd("small", 4096);
  ASSERT_TRUE(fd.ok());
  const Status status = check_sealed(fd->get(), 4097);
  EXPECT_EQ(status.code(), Code::out_of_range);
  EXPECT_THAT(status.to_string(), HasSubstr("4096 bytes, 4097 were promised"));
}

TEST(MemfdTest, an_unsealed_memfd_is_refused) {
  const Fd fd(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
  const Status status = check_sealed(fd.get(), 4096);
  EXPECT_EQ(status.code(), Code::denied);
  EXPECT_THAT(status.to_string(), HasSubstr("not sealed against shrinking"));
}

TEST(MemfdTest, what_is_not_a_memfd_is_refused) {
  auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const Fd file(::open(directory->file("f").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  EXPECT_EQ(check_sealed(file.get(), 1).code(), Code::denied);
  const Fd device(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(check_sealed(device.get(), 1).code(), Code::denied);
  EXPECT_EQ(check_sealed(-1, 1).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::sys
