// What becomes of notifications whose sender ends before its peer has taken them, over the TCP of
// this machine.
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/messages/frames.h>
#include <towpath/backends/messages/message_backend.h>
#include <towpath/run/eventually.h>
#include <towpath/run/worker.h>
#include <towpath/sys/clock.h>

namespace towpath::backends::messages {
namespace {

/// More than a socket takes of a reader that does not read, less than may be unanswered.
constexpr std::size_t kNotes = 15;

class MessageFarewellTest : public ::testing::Test {
 protected:
  MessageFarewellTest() { EXPECT_TRUE(registry_.add(tcp_type()).ok()); }

  /// "near" has a path to "far", and notifications that wait there.
  void meet(const backend::Params& params) {
    const auto open = [&](const char* name, backend::Events& events) {
      auto opened = registry_.open(
          "tcp", {.self = {name, 7}, .clock = &clock_, .events = &events, .params = params});
      EXPECT_TRUE(opened.ok()) << opened.status().to_string();
      return *std::move(opened);
    };
    near_ = open("near", near_events_);
    far_ = open("far", far_events_);
    const auto path = near_->connect({"far", 7}, far_->connection_info()).value();
    const auto is_taken = [&] {
      far_->progress();
      (void)near_->progress();
      return near_->notify(*path, as_bytes("hello")).ok();
    };
    ASSERT_TRUE(run::eventually(is_taken));
    ASSERT_TRUE(run::eventually([&] {
      (void)near_->progress();
      far_->progress();
      return far_events_.notifications.size() == 1;
    }));
    for (std::size_t i = 0; i < kNotes; ++i)
      ASSERT_TRUE(near_->notify(*path, as_bytes(note(i))).ok()) << i;
  }
  static std::string note(std::size_t i) {
    return std::string(kMaxNoteBytes, static_cast<char>('a' + i));
  }
  /// In a thread: it may wait for the other side.
  void end_near() {
    ends_ = run::Worker::start("ends", [this](const run::StopToken&) {
              near_.reset();
              has_ended_ = true;
            }).value();
  }

  const sys::SystemClock clock_;
  backend::Registry registry_;
  backend::testing::RecordingEvents near_events_, far_events_;
  std::unique_ptr<backend::Backend> near_, far_;
  std::atomic<bool> has_ended_{false};
  std::optional<run::Worker> ends_;
};

TEST_F(MessageFarewellTest, what_was_accepted_arrives_though_its_sender_ends) {
  ASSERT_NO_FATAL_FAILURE(meet({{"timeout_ms", "60000"}}));
  end_near();
  // One that does not wait has closed before the other side takes anything.
  (void)run::eventually([&] { return has_ended_.load(); }, std::chrono::seconds(1));
  const auto has_all = [&] {
    far_->progress();
    return far_events_.notifications.size() == 1 + kNotes;
  };
  EXPECT_TRUE(run::eventually(has_all)) << far_events_.notifications.size();
  EXPECT_TRUE(run::eventually([&] { return has_ended_.load(); }));
  for (std::size_t i = 1; i < far_events_.notifications.size(); ++i)
    EXPECT_TRUE(far_events_.notifications[i].message == note(i - 1)) << i;
}

TEST_F(MessageFarewellTest, end_waits_no_longer_than_a_peer_may_be_silent) {
  ASSERT_NO_FATAL_FAILURE(meet({{"timeout_ms", "1000"}}));
  end_near();
  EXPECT_TRUE(run::eventually([&] { return has_ended_.load(); }));
  EXPECT_EQ(far_events_.notifications.size(), 1U);
}

}  // namespace
}  // namespace towpath::backends::messages
