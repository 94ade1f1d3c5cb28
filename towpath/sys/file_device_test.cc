#include <cerrno>
#include <cstring>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/sys/file_device.h>
#include <towpath/sys/file_engine.h>
#include <towpath/sys/memory_file_system.h>
#include <towpath/sys/system_file.h>

namespace towpath::sys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Ends what it is given as a test says: `answer` to each I/O, at once.
class AnsweringEngine final : public FileEngine {
 public:
  std::string_view name() const override { return "answering"; }
  std::string describe() const override { return "answering"; }
  Result<int> add_file(int) override { return error(Code::unsupported, "no table"); }
  void remove_file(int) override {}
  Result<int> add_buffer(ByteSpan) override { return error(Code::unsupported, "no table"); }
  void remove_buffer(int) override {}
  void submit(const FileIo& io) override { inside.push_back(io); }
  bool flush() override { return true; }
  void cancel(std::uint64_t id) override { cancelled.push_back(id); }
  std::size_t reap(std::span<IoDone> into) override {
    most_inside = std::max(most_inside, inside.size());
    std::size_t count = 0;
    while (!inside.empty() && count < into.size() && !stands_still) {
      const FileIo io = inside.front();
      inside.pop_front();
      seen.push_back(io.offset);
      into[count++] = {io.id, answer(io)};
    }
    return count;
  }
  int wait_fd() const override { return -1; }
  void clear_wait_fd() override {}

  std::function<std::int32_t(const FileIo&)> answer = [](const FileIo& io) {
    std::size_t bytes = 0;
    for (const IoPart& part : io.parts) bytes += part.size_bytes;
    return static_cast<std::int32_t>(bytes);
  };
  bool stands_still = false;
  std::deque<FileIo> inside;
  std::vector<std::uint64_t> seen;  ///< offsets
  std::vector<std::uint64_t> cancelled;
  std::size_t most_inside = 0;
};

class FileDeviceTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kDepth = 4;

  FileDeviceTest() {
    auto engine = std::make_unique<AnsweringEngine>();
    engine_ = engine.get();
    device_ = std::make_unique<EngineFileDevice>(std::move(engine), kDepth);
  }

  FileRequest request(FileIo::Kind kind, std::uint64_t offset = 0) {
    return {
        .kind = kind,
        .file = file_,
        .offset = offset,
        .parts = {IoPart::of(std::span(bytes_).first(10)), IoPart::of(std::span(bytes_).last(6))}};
  }

  MemoryFileSystem files_;
  std::shared_ptr<File> file_ = *files_.open("f", {.writable = true, .create = true});
  Bytes bytes_{16};
  std::unique_ptr<EngineFileDevice> device_;
  AnsweringEngine* engine_ = nullptr;
};

TEST_F(FileDeviceTest, what_comes_back_short_goes_on_behind_what_moved) {
  std::vector<std::size_t> lengths;
  engine_->answer = [&](const FileIo& io) {
    lengths.push_back(io.parts.size() * 100 + io.parts[0].size_bytes);
    return lengths.size() == 1 ? 12 : 4;
  };
  FileRequest write = request(FileIo::Kind::write, 100);
  EXPECT_TRUE(device_->finish(write).ok());
  EXPECT_THAT(engine_->seen, ElementsAre(100, 112));
  EXPECT_THAT(lengths, ElementsAre(210, 104)) << "the first part is done, and some of the second";
}

TEST_F(FileDeviceTest, the_end_of_a_file_is_no_data) {
  engine_->answer = [](const FileIo& io) { return io.offset == 0 ? 5 : 0; };
  FileRequest read = request(FileIo::Kind::read);
  const Status why = device_->finish(read);
  EXPECT_EQ(why.code(), Code::corrupt);
  EXPECT_THAT(why.to_string(), HasSubstr("11 bytes at offset 5 of 'f': the file ends there"));
}

TEST_F(FileDeviceTest, what_is_interrupted_is_tried_again_but_not_without_end) {
  int calls = 0;
  engine_->answer = [&](const FileIo&) { return ++calls < 60 ? -EINTR : 16; };
  FileRequest read = request(FileIo::Kind::read);
  EXPECT_TRUE(device_->finish(read).ok());
  engine_->answer = [](const FileIo&) { return -EAGAIN; };
  FileRequest again = request(FileIo::Kind::read);
  EXPECT_EQ(device_->finish(again).code(), Code::io_error);
  engine_->answer = [](const FileIo&) { return 0; };
  FileRequest write = request(FileIo::Kind::write);
  EXPECT_EQ(device_->finish(write).code(), Code::io_error) << "a write that moves nothing";
}

TEST_F(FileDeviceTest, less_than_a_block_past_the_page_cache_is_no_progress) {
  file_ = std::make_shared<SystemFile>(SystemFile::Parts{.path = "f", .alignment = 8});
  int calls = 0;
  engine_->answer = [&](const FileIo&) { return ++calls < 1000 ? 3 : 16; };
  FileRequest write = request(FileIo::Kind::write);
  EXPECT_EQ(device_->finish(write).code(), Code::io_error) << "after " << calls << " tries";
  calls = 0;
  engine_->answer = [&](const FileIo& io) { return ++calls < 60 ? 3 : io.offset == 0 ? 11 : 8; };
  FileRequest goes_on = request(FileIo::Kind::write);
  EXPECT_TRUE(device_->finish(goes_on).ok());
  EXPECT_EQ(engine_->seen.back(), 8U) << "the block that was begun is written again";
}

TEST_F(FileDeviceTest, the_kernel_s_errors_keep_their_meaning) {
  engine_->answer = [](const FileIo&) { return -ENOSPC; };
  FileRequest write = request(FileIo::Kind::write);
  EXPECT_EQ(device_->finish(write).code(), Code::exhausted);
  engine_->answer = [](const FileIo&) { return -ENOMEM; };
  FileRequest without_memory = request(FileIo::Kind::write);
  EXPECT_EQ(device_->finish(without_memory).code(), Code::unavailable) << "space is no help";
  engine_->answer = [](const FileIo&) { return -EIO; };
  FileRequest sync{.kind = FileIo::Kind::sync, .file = file_};
  EXPECT_EQ(device_->finish(sync).code(), Code::io_error);
  EXPECT_THAT(sync.status.to_string(), HasSubstr("cannot sync 'f'"));
}

TEST_F(FileDeviceTest, never_more_than_its_depth_is_in_the_engine_and_none_is_forgotten) {
  std::vector<FileRequest> all;
  for (std::uint64_t i = 0; i < 11; ++i) all.push_back(request(FileIo::Kind::read, i));
  for (FileRequest& one : all) device_->begin(one);
  while (device_->progress()) {
  }
  EXPECT_EQ(engine_->most_inside, kDepth);
  for (const FileRequest& one : all) EXPECT_TRUE(one.has_ended && one.status.ok());
  EXPECT_THAT(engine_->seen, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST_F(FileDeviceTest,
       what_is_cancelled_ends_at_once_where_it_waits_and_with_the_engine_where_not) {
  engine_->stands_still = true;
  std::vector<FileRequest> all;
  for (std::uint64_t i = 0; i < kDepth + 1; ++i) all.push_back(request(FileIo::Kind::write, i));
  for (FileRequest& one : all) device_->begin(one);
  EXPECT_FALSE(device_->progress());
  device_->cancel(all.back());
  EXPECT_EQ(all.back().status.code(), Code::cancelled);
  device_->cancel(all.front());
  EXPECT_FALSE(all.front().has_ended) << "its bytes may still be read";
  EXPECT_EQ(engine_->cancelled.size(), 1U);
  engine_->stands_still = false;
  engine_->answer = [](const FileIo& io) { return io.offset == 0 ? -ECANCELED : 16; };
  while (device_->progress()) {
  }
  EXPECT_EQ(all.front().status.code(), Code::cancelled);
  EXPECT_TRUE(all[1].status.ok()) << "nobody cancelled that one";
}

TEST_F(FileDeviceTest, a_file_without_a_descriptor_is_read_and_written_by_its_own_calls) {
  DirectFileDevice device;
  std::memcpy(bytes_.data(), "0123456789abcdef", 16);
  FileRequest write = request(FileIo::Kind::write, 3);
  EXPECT_TRUE(device.finish(write).ok());
  std::ranges::fill(bytes_, std::byte{0});
  FileRequest read = request(FileIo::Kind::read, 3);
  EXPECT_TRUE(device.finish(read).ok());
  EXPECT_EQ(as_text(bytes_), "0123456789abcdef");
  FileRequest behind = request(FileIo::Kind::read, 4);
  EXPECT_EQ(device.finish(behind).code(), Code::corrupt);
  FileRequest sync{.kind = FileIo::Kind::sync, .file = file_};
  EXPECT_TRUE(device.finish(sync).ok());
  EXPECT_EQ(files_.calls(FileOp::sync), 1U);
}

}  // namespace
}  // namespace towpath::sys
