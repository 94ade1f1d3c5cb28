// Both engines, as a FileDevice uses them, against files of the kernel.
#include <gtest/gtest.h>
#include <poll.h>

#include <towpath/run/file_engines.h>
#include <towpath/sys/file_device.h>
#include <towpath/sys/file_engine.h>
#include <towpath/sys/system_file.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/kernel_rings.h>

namespace towpath::run {
namespace {

class FileEnginesTest : public ::testing::TestWithParam<FileEngineKind> {
 protected:
  static constexpr std::uint32_t kDepth = 8;

  void SetUp() override {
    if (GetParam() == FileEngineKind::io_uring)
      if (const auto why = sys::testing::why_no_rings(); !why.empty()) GTEST_SKIP() << why;
    auto opened = open_file_device(GetParam(), kDepth);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    device_ = *std::move(opened);
    auto made = sys::TemporaryDirectory::create();
    ASSERT_TRUE(made.ok());
    directory_ = std::make_unique<sys::TemporaryDirectory>(*std::move(made));
    auto file = files_.open(directory_->file("f"), {.writable = true, .create = true});
    ASSERT_TRUE(file.ok());
    file_ = *std::move(file);
  }
  void end_all(std::vector<sys::FileRequest>& all) {
    for (sys::FileRequest& one : all) device_->begin(one);
    for (sys::FileRequest& one : all) {
      while (!one.has_ended)
        if (!device_->progress()) device_->wait(std::chrono::seconds(20));
      EXPECT_TRUE(one.status.ok()) << one.status.to_string();
    }
  }

  sys::SystemFileSystem files_;
  std::unique_ptr<sys::TemporaryDirectory> directory_;
  std::shared_ptr<sys::File> file_;
  std::unique_ptr<sys::FileDevice> device_;
};

TEST_P(FileEnginesTest, many_records_of_two_parts_come_back_as_they_went) {
  constexpr std::size_t kRecords = 40;
  constexpr std::size_t kHead = 4096, kBody = 10'000;
  std::vector<Bytes> heads, bodies;
  std::vector<sys::FileRequest> writes(kRecords), reads(kRecords);
  for (std::size_t i = 0; i < kRecords; ++i) {
    heads.emplace_back(kHead, static_cast<std::byte>(i));
    bodies.emplace_back(kBody, static_cast<std::byte>(100 + i));
  }
  for (std::size_t i = 0; i < kRecords; ++i)
    writes[i] = {.kind = sys::FileIo::Kind::write,
                 .file = file_,
                 .offset = i * (kHead + kBody),
                 .parts = {sys::IoPart::of(heads[i]), sys::IoPart::of(bodies[i])}};
  end_all(writes);
  std::vector<sys::FileRequest> syncs(1);
  syncs[0] = {.kind = sys::FileIo::Kind::sync, .file = file_};
  end_all(syncs);
  Bytes all(kRecords * (kHead + kBody));
  for (std::size_t i = 0; i < kRecords; ++i)
    reads[i] = {
        .file = file_,
        .offset = i * (kHead + kBody),
        .parts = {sys::IoPart::of(ByteSpan(all).subspan(i * (kHead + kBody), kHead + kBody))}};
  end_all(reads);
  for (std::size_t i = 0; i < kRecords; ++i) {
    const ConstByteSpan record = ConstByteSpan(all).subspan(i * (kHead + kBody), kHead + kBody);
    EXPECT_TRUE(std::ranges::equal(record.first(kHead), heads[i])) << i;
    EXPECT_TRUE(std::ranges::equal(record.last(kBody), bodies[i])) << i;
  }
}

TEST_P(FileEnginesTest, the_descriptor_is_silent_when_all_has_ended) {
  Bytes bytes(100);
  std::vector<sys::FileRequest> all(20);
  for (sys::FileRequest& one : all)
    one = {.kind = sys::FileIo::Kind::write, .file = file_, .parts = {sys::IoPart::of(bytes)}};
  end_all(all);
  (void)device_->progress();
  pollfd ready{device_->wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0) << "who sleeps beside it would spin";
}

TEST_P(FileEnginesTest, a_read_behind_the_end_is_an_error_and_not_data) {
  ASSERT_TRUE(sys::write_exactly(*file_, Bytes(100), 0).ok());
  Bytes bytes(101);
  sys::FileRequest read{.file = file_, .parts = {sys::IoPart::of(bytes)}};
  EXPECT_EQ(device_->finish(read).code(), Code::corrupt);
}

TEST_P(FileEnginesTest, a_file_that_can_only_be_read_is_not_written) {
  std::shared_ptr<sys::File> only_read = *files_.open(file_->path(), {});
  Bytes bytes(10);
  sys::FileRequest write{
      .kind = sys::FileIo::Kind::write, .file = only_read, .parts = {sys::IoPart::of(bytes)}};
  EXPECT_FALSE(device_->finish(write).ok());
}

INSTANTIATE_TEST_SUITE_P(Engines, FileEnginesTest,
                         ::testing::Values(FileEngineKind::io_uring, FileEngineKind::threads),
                         [](const auto& engine) {
                           return engine.param == FileEngineKind::threads ? "threads" : "io_uring";
                         });

}  // namespace
}  // namespace towpath::run
