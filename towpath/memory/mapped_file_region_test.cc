#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/device/testing/fake_cuda.h>
#include <towpath/memory/mapped_file_region.h>
#include <towpath/memory/pinned_region.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/child.h>

namespace towpath::memory {
namespace {

using ::testing::HasSubstr;

class MappedFileRegionTest : public ::testing::Test {
 protected:
  std::shared_ptr<MappedFileRegion> create(std::uint64_t size_bytes = 3 * 4096) {
    return MappedFileRegion::create({.path = path_, .size_bytes = size_bytes}).value();
  }
  bool exists() const { return ::access(path_.c_str(), F_OK) == 0; }

  const sys::TemporaryDirectory directory_ = sys::TemporaryDirectory::create().value();
  const std::string path_ = directory_.file("shared");
};

TEST_F(MappedFileRegionTest, both_see_the_same_bytes_and_the_size_is_the_files) {
  const auto ours = create();
  const auto theirs = MappedFileRegion::open({.path = path_, .identity = ours->identity()});
  ASSERT_TRUE(theirs.ok()) << theirs.status().to_string();
  EXPECT_EQ((*theirs)->size(), 3u * 4096);
  EXPECT_EQ((*theirs)->descriptor().fd, -1) << "nothing is sealed, so nobody else may map it by us";
  ours->bytes()[5000] = std::byte{42};
  EXPECT_EQ((*theirs)->bytes()[5000], std::byte{42});
}

TEST_F(MappedFileRegionTest, the_name_goes_with_its_maker_and_the_bytes_stay_for_the_others) {
  auto ours = create();
  const auto theirs = MappedFileRegion::open({.path = path_}).value();
  ours->bytes()[1] = std::byte{7};
  ours.reset();
  EXPECT_FALSE(exists());
  EXPECT_EQ(theirs->bytes()[1], std::byte{7});
  theirs->bytes()[3 * 4096 - 1] = std::byte{1};  // never shortened: else this is a SIGBUS
}

TEST_F(MappedFileRegionTest, who_opened_it_leaves_the_name) {
  const auto ours = create();
  (void)MappedFileRegion::open({.path = path_}).value();
  EXPECT_TRUE(exists());
}

TEST_F(MappedFileRegionTest, a_forked_child_that_drops_its_copy_leaves_the_name) {
  auto ours = create();
  EXPECT_TRUE(sys::testing::passes_in_child([&] { ours.reset(); }));
  EXPECT_TRUE(exists());
}

TEST_F(MappedFileRegionTest, a_file_that_was_there_is_never_taken_nor_removed) {
  const auto ours = create();
  EXPECT_EQ(MappedFileRegion::create({.path = path_, .size_bytes = 4096}).code(),
            Code::already_exists);
  EXPECT_TRUE(exists());
}

TEST_F(MappedFileRegionTest, another_file_under_the_name_is_denied) {
  auto first = create();
  const sys::FileIdentity reported = first->identity();
  ASSERT_EQ(::rename(path_.c_str(), directory_.file("old").c_str()), 0);
  const auto second = create();
  const auto opened = MappedFileRegion::open({.path = path_, .identity = reported});
  EXPECT_EQ(opened.code(), Code::denied);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("not the file that was reported"));
}

TEST_F(MappedFileRegionTest, links_and_what_is_no_file_are_refused) {
  const auto ours = create();
  const std::string link = directory_.file("link");
  ASSERT_EQ(::symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_EQ(MappedFileRegion::open({.path = link}).code(), Code::unsupported);
  EXPECT_FALSE(MappedFileRegion::open({.path = directory_.path()}).ok());
  EXPECT_EQ(MappedFileRegion::open({.path = directory_.file("none")}).code(), Code::not_found);
}

TEST_F(MappedFileRegionTest, a_extent_lies_within_the_file_and_keeps_its_alignment) {
  const auto ours = create();
  ours->bytes()[4096] = std::byte{3};
  const auto part = MappedFileRegion::open({.path = path_, .offset = 4096, .size_bytes = 100});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ((*part)->bytes()[0], std::byte{3});
  const auto code = [&](OpenMappedFile options) {
    options.path = path_;
    return MappedFileRegion::open(options).code();
  };
  EXPECT_EQ(code({.offset = 1}), Code::invalid_argument);
  EXPECT_EQ(code({.offset = 3 * 4096}), Code::out_of_range);
  EXPECT_EQ(code({.offset = 4096, .size_bytes = 3 * 4096}), Code::out_of_range);
  EXPECT_EQ(code({.offset = UINT64_MAX - 4095, .size_bytes = 8192}), Code::out_of_range);
  EXPECT_EQ(code({.alignment = 3}), Code::invalid_argument);
  EXPECT_EQ(code({.alignment = 1 << 20}), Code::invalid_argument);
  EXPECT_EQ(code({.alignment = 512}), Code::ok);
}

TEST_F(MappedFileRegionTest, space_that_is_not_there_leaves_no_file) {
  EXPECT_EQ(MappedFileRegion::create({.path = path_}).code(), Code::invalid_argument);
  const auto huge = MappedFileRegion::create({.path = path_, .size_bytes = 1ull << 62});
  EXPECT_FALSE(huge.ok());
  EXPECT_FALSE(exists());
}

TEST_F(MappedFileRegionTest, is_pinned_for_a_device_and_a_failure_leaves_nothing_behind) {
  const sys::SystemClock clock;
  device::HostDriver driver(clock);
  const auto device = driver.open(0).value();
  {
    const auto pinned = PinnedRegion::pin(create(), device);
    ASSERT_TRUE(pinned.ok()) << pinned.status().to_string();
    EXPECT_EQ((*pinned)->kind(), MemoryKind::pinned);
    EXPECT_TRUE(exists());
  }
  EXPECT_FALSE(exists());
  const auto fake =
      device::CudaDriver::open({.library = device::testing::FakeCuda::path()}).value();
  device::testing::FakeCuda().fail_next("cuMemHostRegister_v2", device::cuda::kOutOfMemory);
  EXPECT_EQ(PinnedRegion::pin(create(), fake->open(0).value()).code(), Code::exhausted);
  EXPECT_FALSE(exists());
}

}  // namespace
}  // namespace towpath::memory
