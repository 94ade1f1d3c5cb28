#include <array>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <towpath/sys/fd.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/kernel_rings.h>
#include <towpath/sys/uring_file_engine.h>

namespace towpath::sys {
namespace {

constexpr std::size_t kPipeBytes = 4096;

/// One that is full, so that a write into it blocks, or empty, so that a read does.
struct StuckPipe {
  explicit StuckPipe(bool full) {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
    if (!full) return;
    EXPECT_GE(::fcntl(writer.get(), F_SETPIPE_SZ, kPipeBytes), 0);
    const std::array<char, kPipeBytes> bytes{};
    EXPECT_EQ(::write(writer.get(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }
  Fd reader;
  Fd writer;
};

class UringFileEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = testing::why_no_rings(); !why.empty()) GTEST_SKIP() << why;
    auto engine = UringFileEngine::open(4);
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    engine_ = std::move(*engine);
  }

  /// The next to end, as its descriptor reports.
  IoDone next() {
    std::array<IoDone, 1> done;
    while (engine_->reap(done) == 0) {
      pollfd ready{engine_->wait_fd(), POLLIN, 0};
      if (::poll(&ready, 1, 20'000) != 1) {
        ADD_FAILURE() << "nothing is reported";
        break;
      }
      engine_->clear_wait_fd();
    }
    return done[0];
  }

  std::unique_ptr<UringFileEngine> engine_;
  std::array<char, 4> bytes_{'l', 'o', 'c', 'k'};
  const std::array<IoPart, 1> parts_{IoPart{bytes_.data(), bytes_.size()}};
};

TEST_F(UringFileEngineTest,
       writes_through_the_page_cache_are_reported_by_the_descriptor_of_the_others) {
  const auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const Fd file(::open(directory->file("f").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  const auto slot = engine_->add_file(file.get());
  ASSERT_TRUE(slot.ok()) << slot.status().to_string();
  FileIo io{.id = 1,
            .kind = FileIo::Kind::write,
            .buffered = true,
            .file = {file.get(), *slot},
            .parts = parts_};
  for (; io.id <= 4; ++io.id, io.buffered = !io.buffered,
                              io.kind = io.id != 4 ? FileIo::Kind::write : FileIo::Kind::read) {
    engine_->submit(io);
    EXPECT_TRUE(engine_->flush());
    const IoDone done = next();
    EXPECT_EQ(done.id, io.id);
    EXPECT_EQ(done.result, 4);
  }
}

// Both devices answer at once, so that there is a write to report each time.
TEST_F(UringFileEngineTest, writes_that_never_cease_do_not_hold_a_read_up) {
  const Fd zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const Fd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(zero && null);
  engine_->submit({.id = 1, .file = {.fd = zero.get()}, .parts = parts_});
  IoDone done;
  for (int i = 0; i < 10 && done.id != 1; ++i) {
    engine_->submit({.id = 2,
                     .kind = FileIo::Kind::write,
                     .buffered = true,
                     .file = {.fd = null.get()},
                     .parts = parts_});
    ASSERT_TRUE(engine_->flush());
    done = next();
    EXPECT_EQ(done.result, 4);
  }
  EXPECT_EQ(done.id, 1U);
}

TEST_F(UringFileEngineTest, what_is_cancelled_comes_back_whichever_way_it_went) {
  const StuckPipe full(true);
  const StuckPipe empty(false);
  FileIo write{.id = 1, .kind = FileIo::Kind::write, .buffered = true, .parts = parts_};
  write.file.fd = full.writer.get();
  FileIo read{.id = 2, .parts = parts_};
  read.file.fd = empty.reader.get();
  engine_->submit(write);
  engine_->submit(read);
  ASSERT_TRUE(engine_->flush());
  for (const std::uint64_t id : {2U, 1U}) {
    engine_->cancel(id);
    const IoDone done = next();
    EXPECT_EQ(done.id, id);
    EXPECT_THAT(done.result, ::testing::AnyOf(-ECANCELED, -EINTR));
  }
}

}  // namespace
}  // namespace towpath::sys
