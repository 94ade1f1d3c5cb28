// Requests that are waited for, to a store that says nothing: no store is needed.
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/object/store.h>
#include <towpath/core/format.h>
#include <towpath/net/listener.h>
#include <towpath/sys/clock.h>

namespace towpath::backends::object {
namespace {

// Each would be sent again after half a minute or more, and once more after that, all day.
TEST(StoreTest, silent_store_is_given_up_after_the_timeout_of_all_together) {
  const net::Listener listener = net::Listener::listen(net::TcpAddress{"127.0.0.1", 0}).value();
  const auto port = std::get<net::TcpAddress>(listener.address()).port;
  const auto options = BackendOptions::parse({{"endpoint_override", cat("http://127.0.0.1:", port)},
                                              {"timeout_ms", "30"},
                                              {"max_attempts", "100"},
                                              {"retry_delay_ms", "60000"}});
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  const sys::SystemClock clock;
  const auto store = Store::open(*options, clock).value();
  std::vector<Ask> asks;
  for (const char* key : {"a", "b"}) asks.push_back({.method = "HEAD", .name = {"bucket", key}});
  const auto answers = store->call(std::move(asks));
  ASSERT_EQ(answers.size(), 2U);
  for (const auto& answer : answers) {
    EXPECT_EQ(answer.code(), Code::timed_out);
    EXPECT_THAT(answer.status().to_string(), ::testing::HasSubstr("within 30 ms"));
  }
}

}  // namespace
}  // namespace towpath::backends::object
