// The n-th allocation fails, for every n, while a rendezvous ends and takes its metadata along: it
// ends without them, and the process goes on.
#include <gtest/gtest.h>

#include <towpath/rendezvous/etcd_rendezvous.h>
#include <towpath/rendezvous/hosted_rendezvous.h>
#include <towpath/rendezvous/test_gateway.h>
#include <towpath/rendezvous/test_sockets.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/clock.h>

#include "failing_allocation.h"

namespace towpath::rendezvous {
namespace {

constexpr Duration kFarewell = std::chrono::milliseconds(1);

/// False: it needed fewer allocations.
template <typename Made>
bool ends_without_allocation(std::int64_t n, std::unique_ptr<Made> made) {
  towpath::testing::fail_allocation(n);
  made.reset();
  return towpath::testing::stop_failing();
}

TEST(RendezvousFaultsTest, a_guest_that_finds_no_memory_for_its_farewell_goes_all_the_same) {
  const sys::SystemClock clock;
  const HostedRendezvousOptions options{.address = test_address(), .farewell_timeout = kFarewell};
  const auto host = HostedRendezvous::open(options, clock).value();
  std::int64_t n = 0;
  for (bool is_reached = true; is_reached; ++n) {
    auto guest = HostedRendezvous::open(options, clock).value();
    ASSERT_TRUE(guest->publish("g", as_bytes("of guest")).ok());
    ASSERT_TRUE(run::eventually([&] {
      (void)host->progress();
      (void)guest->progress();
      return guest->standing().pending == 0;
    }));
    is_reached = ends_without_allocation(n, std::move(guest));
  }
  EXPECT_GT(n, 1) << "nothing was tried";
}

TEST(RendezvousFaultsTest, a_lease_is_not_given_back_where_no_memory_is_left_for_that) {
  const sys::SystemClock clock;
  std::int64_t n = 0;
  for (bool is_reached = true; is_reached; ++n) {
    TestGateway gateway;
    EtcdOptions options;
    options.client.endpoints = {gateway.url()};
    options.farewell_timeout = kFarewell;
    auto made = EtcdRendezvous::open(std::move(options), clock).value();
    ASSERT_TRUE(made->publish("a", as_bytes("of a")).ok());
    bool has_lease = false;
    ASSERT_TRUE(run::eventually([&] {
      (void)made->progress();
      const auto asked = gateway.take();
      if (asked && asked->path == "/v3/lease/grant")
        gateway.reply(*asked, R"({"ID":"7","TTL":"60"})");
      return has_lease = asked && asked->path == "/v3/kv/put";
    }));
    ASSERT_TRUE(has_lease);
    is_reached = ends_without_allocation(n, std::move(made));
  }
  EXPECT_GT(n, 1) << "nothing was tried";
}

}  // namespace
}  // namespace towpath::rendezvous
