#include <string>

#include <gtest/gtest.h>

#include <towpath/agent/receive_windows.h>

namespace towpath::agent {
namespace {

using Verdict = ReceiveWindow::Verdict;

constexpr std::size_t kStrangers = 4;

AgentIdentity sender(int number) { return {std::to_string(number), 1}; }

/// Whether the sender's message is new.
bool hear(ReceiveWindows& windows, int from, std::uint64_t number) {
  ReceiveWindow& window = windows.of(sender(from));
  const bool is_new = window.judge({Envelope::Kind::message, 1, number, {}}) == Verdict::deliver;
  if (is_new) window.delivered();
  return is_new;
}

TEST(ReceiveWindowsTest, are_bounded_however_many_senders_come_and_go) {
  ReceiveWindows windows(kStrangers);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(hear(windows, i, 1));
    EXPECT_FALSE(hear(windows, i, 1)) << "a copy";
  }
  EXPECT_EQ(windows.size(), kStrangers);
}

TEST(ReceiveWindowsTest, the_stranger_that_was_silent_longest_goes_first) {
  ReceiveWindows windows(kStrangers);
  for (int i = 0; i < 4; ++i) hear(windows, i, 1);
  EXPECT_TRUE(hear(windows, 0, 2));
  hear(windows, 4, 1);
  EXPECT_FALSE(hear(windows, 0, 2)) << "1 was silent longer";
  EXPECT_TRUE(hear(windows, 1, 1)) << "let go of: it begins anew";
}

TEST(ReceiveWindowsTest, that_of_a_peer_stays_and_goes_with_it) {
  ReceiveWindows windows(kStrangers);
  hear(windows, 0, 1);
  windows.keep(sender(0));
  windows.keep(sender(0));
  for (int i = 1; i < 100; ++i) hear(windows, i, 1);
  EXPECT_FALSE(hear(windows, 0, 1));
  EXPECT_EQ(windows.size(), kStrangers + 1);
  windows.forget(sender(0));
  EXPECT_EQ(windows.size(), kStrangers) << "a stranger now, among the bounded";
  EXPECT_FALSE(hear(windows, 0, 1)) << "a late copy is known";
  for (int i = 100; i < 104; ++i) hear(windows, i, 1);
  EXPECT_TRUE(hear(windows, 0, 1));
}

TEST(ReceiveWindowsTest, a_peer_that_never_spoke_leaves_nothing) {
  ReceiveWindows windows(kStrangers);
  windows.keep(sender(0));
  EXPECT_EQ(windows.size(), 1U);
  windows.forget(sender(0));
  windows.forget(sender(1));
  EXPECT_EQ(windows.size(), 0U);
}

}  // namespace
}  // namespace towpath::agent
