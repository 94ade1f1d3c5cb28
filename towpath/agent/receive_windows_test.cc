#include <string>

#include <gtest/gtest.h>

#include <towpath/agent/receive_windows.h>

namespace towpath::agent {
namespace {

using Verdict = ReceiveWindow::Verdict;

constexpr std::size_t kUnauthenticated = 4;

AgentIdentity sender(int number) { return {std::to_string(number), 1}; }

/// Whether the sender's message is new.
bool hear(ReceiveWindows& windows, int from, std::uint64_t number) {
  ReceiveWindow& window = windows.of(sender(from));
  const bool is_new = window.judge({Envelope::Kind::message, 1, number, {}}) == Verdict::deliver;
  if (is_new) window.delivered();
  return is_new;
}

TEST(ReceiveWindowsTest, are_bounded_however_many_senders_come_and_go) {
  ReceiveWindows windows(kUnauthenticated);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(hear(windows, i, 1));
    EXPECT_FALSE(hear(windows, i, 1)) << "a copy";
  }
  EXPECT_EQ(windows.size(), kUnauthenticated);
}

TEST(ReceiveWindowsTest, the_unauthenticated_that_was_silent_longest_goes_first) {
  ReceiveWindows windows(kUnauthenticated);
  for (int i = 0; i < 4; ++i) hear(windows, i, 1);
  EXPECT_TRUE(hear(windows, 0, 2));
  hear(windows, 4, 1);
  EXPECT_FALSE(hear(windows, 0, 2)) << "1 was silent longer";
  EXPECT_TRUE(hear(windows, 1, 1)) << "let go of: it begins anew";
}

TEST(ReceiveWindowsTest, that_of_a_peer_stays_and_goes_with_it) {
  ReceiveWindows windows(kUnauthenticated);
  hear(windows, 0, 1);
  windows.keep(sender(0));
  windows.keep(sender(0));
  for (int i = 1; i < 100; ++i) hear(windows, i, 1);
  EXPECT_FALSE(hear(windows, 0, 1));
  EXPECT_EQ(windows.size(), kUnauthenticated + 1);
  windows.forget(sender(0));
  EXPECT_EQ(windows.size(), kUnauthenticated)
      << "an unauthenticated connection now, among the bounded";
  EXPECT_FALSE(hear(windows, 0, 1)) << "a late copy is known";
  for (int i = 100; i < 104; ++i) hear(windows, i, 1);
  EXPECT_TRUE(hear(windows, 0, 1));
}

TEST(ReceiveWindowsTest, a_peer_that_never_spoke_leaves_nothing) {
  ReceiveWindows windows(kUnauthenticated);
  windows.keep(sender(0));
  EXPECT_EQ(windows.size(), 1U);
  windows.forget(sender(0));
  windows.forget(sender(1));
  EXPECT_EQ(windows.size(), 0U);
}

}  // namespace
}  // namespace towpath::agent
