// The n-th allocation fails, for every n, while a message is put into an inbox, and while it is
// offered.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backends/loopback/exchange.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/sys/clock.h>

#include "failing_allocation.h"

namespace towpath::backends::loopback {
namespace {

TEST(LoopbackFaultsTest, without_memory_a_message_is_not_taken_and_nothing_is_left_of_it) {
  bool is_reached = true;
  std::int64_t n = 0;
  for (; is_reached; ++n) {
    Exchange exchange(1);
    const auto near = exchange.open_endpoint({"near", 1}).value();
    const auto far = exchange.open_endpoint({"far", 1}).value();
    Status delivered;
    testing::fail_allocation(n);
    const bool returned = testing::survives(
        [&] { delivered = far->deliver(*near, as_bytes(std::string_view("a word"))); });
    is_reached = testing::stop_failing();
    Waiting next;
    EXPECT_EQ(far->find_next(0, next), returned && delivered.ok()) << "allocation " << n;
    ASSERT_LT(n, 100);
  }
  EXPECT_GT(n, 3) << "nothing was tried";
}

/// Takes no message until it is willing.
class Unwilling final : public backend::Events {
 public:
  Unwilling() { heard.reserve(16); }
  void on_complete(backend::Operation&, const backend::Completion&) override {}
  bool on_notification(const AgentIdentity&, ConstByteSpan message) override {
    if (is_willing) heard.emplace_back(as_text(message));
    return is_willing;
  }
  void on_peer_lost(backend::Connection&, const Status&) override {}

  bool is_willing = false;
  std::vector<std::string> heard;
};

// As an agent is that has no memory for it: there is none to put the message back either.
TEST(LoopbackFaultsTest, a_message_that_is_refused_for_want_of_memory_is_offered_again) {
  const sys::SystemClock clock;
  for (std::int64_t n = 0; n < 10; ++n) {
    const backend::BackendType type = loopback_type();
    Unwilling sender, receiver;
    const AgentIdentity here{"near", 1}, there{"far", 1};
    const auto near = *type.open({.self = here, .clock = &clock, .events = &sender});
    const auto far = *type.open({.self = there, .clock = &clock, .events = &receiver});
    const auto connection = *near->connect(there, far->connection_info());
    for (const std::string_view word : {"one", "two"})
      ASSERT_TRUE(near->notify(*connection, as_bytes(word)).ok());
    testing::fail_allocation(n);
    (void)testing::survives([&] { (void)far->progress(); });
    (void)testing::stop_failing();
    receiver.is_willing = true;
    (void)far->progress();
    EXPECT_EQ(receiver.heard, (std::vector<std::string>{"one", "two"})) << "allocation " << n;
  }
}

}  // namespace
}  // namespace towpath::backends::loopback
