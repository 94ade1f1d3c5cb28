// Conformance: notifications arrive once, in order, whole, and not before the bytes they speak of.
#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/world.h>
#include <towpath/core/format.h>

namespace towpath::backend::conformance {
namespace {

/// What was reported to the far agent, in the order of arrival.
struct Inbox {
  explicit Inbox(agent::Agent& of) : agent(of) {}
  std::size_t look() {
    for (agent::Notification& reported : agent.take_notifications())
      all.push_back(std::move(reported));
    return all.size();
  }
  agent::Agent& agent;
  std::vector<agent::Notification> all;
};

class MessagesConformance : public CandidateTest {
 protected:
  void SetUp() override {
    CandidateTest::SetUp();
    if (!IsSkipped() && !candidate().no_messages.empty()) GTEST_SKIP() << candidate().no_messages;
  }
  /// Sends, and makes progress while there is no room.
  Status send(World& world, ConstByteSpan message) {
    Status sent;
    const bool taken = world.run_until([&] {
      sent = world.near().notify(world.far_name(), message);
      return sent.code() != Code::exhausted;
    });
    return taken ? sent : error(Code::timed_out, "no room in all this time");
  }
};

TEST_P(MessagesConformance, messages_arrive_once_and_in_order) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  Inbox inbox(world.far());
  constexpr std::size_t kMessages = 3000;
  for (std::size_t i = 0; i < kMessages; ++i)
    ASSERT_TRUE(send(world, as_bytes(cat(i, ":", std::string(i % 300, 'x')))).ok());
  ASSERT_TRUE(world.run_until([&] { return inbox.look() >= kMessages; })) << inbox.all.size();
  linger(world.agents());
  ASSERT_EQ(inbox.look(), kMessages) << "something came twice";
  for (std::size_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(as_text(inbox.all[i].message), cat(i, ":", std::string(i % 300, 'x')));
    ASSERT_EQ(inbox.all[i].from, world.near().identity());
  }
}

TEST_P(MessagesConformance, empty_and_largest_messages_arrive_and_a_larger_one_is_refused) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  Inbox inbox(world.far());
  constexpr std::size_t kLargest = std::size_t{16} << 20U;
  EXPECT_EQ(world.near().notify(world.far_name(), Bytes(kLargest + 1)).code(),
            Code::invalid_argument);
  std::uint64_t at_once = 0;  // as the backend carries it: more travels in pieces
  for (const std::string& name : world.near().backends()) {
    const Capabilities can = *world.near().capabilities(name);
    if (at_once == 0 && can.notifications != Notifications::none)
      at_once = can.max_notification_bytes;
  }
  const std::vector<std::size_t> sizes = {0, at_once - 64, at_once, at_once + 1, 1 << 20, kLargest};
  std::vector<Bytes> sent;
  for (const std::size_t size : sizes) {
    Bytes message(size);
    for (std::size_t i = 0; i < size; ++i) message[i] = static_cast<std::byte>(i * 31 + i / 4096);
    ASSERT_TRUE(send(world, message).ok()) << size;
    sent.push_back(std::move(message));
  }
  ASSERT_TRUE(world.run_until([&] { return inbox.look() >= sizes.size(); }));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    EXPECT_TRUE(inbox.all[i].message == sent[i]) << sizes[i];
}

TEST_P(MessagesConformance, nobody_takes_them_and_none_is_lost) {
  World world(candidate(), pairing(), {.far_inbox_messages = 4});
  ASSERT_TRUE(world.ready());
  Inbox inbox(world.far());
  std::size_t sent = 0;
  Status last;
  // Until nothing on the way has room any more.
  for (int idle = 0; idle < 100 && sent < 200'000;) {
    last =
        world.near().notify(world.far_name(), as_bytes(cat(sent, " ", std::string(30'000, 'p'))));
    if (last.ok()) {
      ++sent;
      idle = 0;
      continue;
    }
    ASSERT_EQ(last.code(), Code::exhausted) << last.to_string();
    ++idle;
    for (agent::Agent* agent : world.agents()) agent->progress();
  }
  ASSERT_EQ(last.code(), Code::exhausted) << "a sender must be held back some time";
  ASSERT_TRUE(world.run_until([&] { return inbox.look() >= sent; }))
      << inbox.all.size() << " of " << sent;
  for (std::size_t i = 0; i < sent; ++i) {
    const std::string_view text = as_text(inbox.all[i].message);
    ASSERT_EQ(text.substr(0, text.find(' ')), std::to_string(i));
  }
}

TEST_P(MessagesConformance, message_of_a_transfer_comes_after_its_bytes) {
  World world(candidate(), pairing(), {.pool_bytes = 2 * kMiB});
  ASSERT_TRUE(world.ready());
  const Shape shape{strided({.length = 2 * kMiB}), strided({.length = 2 * kMiB})};
  for (std::uint64_t round = 0; round < 30; ++round) {
    world.fill(round);
    auto push =
        world.make(TransferOp::write, shape, {.notification = to_bytes(std::to_string(round))});
    ASSERT_TRUE(push.ok()) << push.status().to_string();
    ASSERT_TRUE(push->post().ok());
    Inbox inbox(world.far());
    ASSERT_TRUE(world.run_until([&] { return inbox.look() > 0; }));
    world.check(TransferOp::write, shape);
    EXPECT_EQ(as_text(inbox.all[0].message), std::to_string(round));
    ASSERT_TRUE(world.run_to_end(*push));
    EXPECT_EQ(inbox.look(), 1U);
  }
}

TEST_P(MessagesConformance, transfer_that_is_not_done_reports_nothing) {
  World world(candidate(), pairing(), {.pool_bytes = 16 * kMiB});
  ASSERT_TRUE(world.ready());
  Inbox inbox(world.far());
  const Shape shape{strided({.length = 16 * kMiB}), strided({.length = 16 * kMiB})};
  auto push = world.make(TransferOp::write, shape, {.notification = to_bytes("lie")});
  ASSERT_TRUE(push.ok()) << push.status().to_string();
  ASSERT_TRUE(push->post().ok());
  push->cancel();
  ASSERT_TRUE(world.run_to_end(*push));
  linger(world.agents());
  EXPECT_EQ(inbox.look(), push->outcome() == Outcome::done ? 1U : 0U);
}

TEST_P(MessagesConformance, both_sides_talk_at_once) {
  if (pairing().to_self) GTEST_SKIP() << "there is no other side";
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  Inbox far(world.far());
  Inbox near(world.near());
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(world.near().notify("far", as_bytes(std::to_string(i))).ok());
    ASSERT_TRUE(world.far().notify("near", as_bytes(std::to_string(i))).ok());
  }
  ASSERT_TRUE(world.run_until([&] { return far.look() >= 200 && near.look() >= 200; }));
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(as_text(far.all[i].message), std::to_string(i));
    EXPECT_EQ(as_text(near.all[i].message), std::to_string(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Backend, MessagesConformance, testing::ValuesIn(all_candidates()),
                         Labels());

}  // namespace
}  // namespace towpath::backend::conformance
