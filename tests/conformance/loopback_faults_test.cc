// The n-th allocation fails, for every n, while a message is put into an inbox.
#include <gtest/gtest.h>

#include <towpath/backends/loopback/exchange.h>

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
    Message next;
    EXPECT_EQ(far->take(0, next), returned && delivered.ok()) << "allocation " << n;
    ASSERT_LT(n, 100);
  }
  EXPECT_GT(n, 3) << "nothing was tried";
}

}  // namespace
}  // namespace towpath::backends::loopback
