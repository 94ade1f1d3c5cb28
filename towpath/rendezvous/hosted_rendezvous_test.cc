#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/rendezvous/hosted_rendezvous.h>
#include <towpath/rendezvous/test_sockets.h>
#include <towpath/run/eventually.h>
#include <towpath/run/worker.h>
#include <towpath/sys/clock.h>

namespace towpath::rendezvous {
namespace {

using run::Deadline;
using run::eventually;

class HostedRendezvousTest : public testing::Test {
 protected:
  std::unique_ptr<HostedRendezvous> join() {
    return HostedRendezvous::open({.address = address, .tls = tls}, clock).value();
  }
  template <typename Condition>
  bool soon(Condition condition) {
    return eventually([&] {
      for (HostedRendezvous* each : {host.get(), guest.get()})
        if (each != nullptr) each->progress();
      return condition();
    });
  }
  Result<Bytes> ask(HostedRendezvous& from, const MetadataName& name) {
    std::optional<Result<Bytes>> answer;
    (void)from.fetch(name, Deadline::never(), [&](Result<Bytes> metadata) { answer = metadata; });
    EXPECT_TRUE(soon([&] { return answer.has_value(); }));
    return answer ? *answer : error(Code::internal, "no answer");
  }

  sys::SystemClock clock;
  net::Address address = test_address();
  net::TlsProvider tls;
  std::unique_ptr<HostedRendezvous> host, guest;
};

TEST_F(HostedRendezvousTest, first_hosts_and_metadata_go_both_ways) {
  for (const net::Address& where : {address, net::Address(net::TcpAddress{"127.0.0.1", 0})}) {
    address = where;
    tls = provider_of(test_tls("a secret of both"));
    host = join();
    address = host->address();
    guest = join();
    EXPECT_TRUE(host->is_host());
    EXPECT_FALSE(guest->is_host());
    std::vector<std::pair<std::string, std::string>> seen;
    host->watch([&](const Change& change) {
      seen.emplace_back(change.name.agent,
                        change.metadata ? std::string(as_text(*change.metadata)) : "withdrawn");
    });
    ASSERT_TRUE(host->publish("h", as_bytes("of host")).ok());
    ASSERT_TRUE(guest->publish("g", as_bytes("of guest")).ok());
    EXPECT_EQ(guest->standing().pending, 1U);
    ASSERT_TRUE(soon([&] { return guest->standing().pending == 0; }));
    EXPECT_EQ(ask(*guest, "h").value(), to_bytes("of host"));
    EXPECT_EQ(ask(*host, "g").value(), to_bytes("of guest"));
    EXPECT_EQ(ask(*guest, "g").value(), to_bytes("of guest"));
    ASSERT_TRUE(guest->withdraw("g").ok());
    EXPECT_EQ(guest->withdraw("g").code(), Code::not_found);
    ASSERT_TRUE(soon([&] { return guest->standing().pending == 0; }));
    EXPECT_EQ(ask(*host, "g").code(), Code::not_found);
    EXPECT_THAT(seen, testing::ElementsAre(testing::Pair("g", "of guest"),
                                           testing::Pair("g", "withdrawn")));
    ASSERT_TRUE(host->withdraw("h").ok());
    EXPECT_EQ(ask(*guest, "h").code(), Code::not_found);
    guest.reset();
    host.reset();
  }
}

TEST_F(HostedRendezvousTest, all_of_an_agent_is_withdrawn_at_once_by_a_host_and_by_a_guest) {
  host = join();
  guest = join();
  for (HostedRendezvous* each : {host.get(), guest.get()}) {
    ASSERT_TRUE(each->publish("a", as_bytes("full")).ok());
    ASSERT_TRUE(each->publish({"a", "part"}, as_bytes("part")).ok());
    ASSERT_TRUE(soon([&] { return each->standing().pending == 0; }));
    const Status withdrawn = each->withdraw("a");
    EXPECT_TRUE(withdrawn.ok()) << withdrawn.to_string();
    EXPECT_EQ(each->withdraw("a").code(), Code::not_found) << "it is gone";
    ASSERT_TRUE(soon([&] { return each->standing().pending == 0; }));
    EXPECT_EQ(ask(*each, {"a", "part"}).code(), Code::not_found);
  }
}

TEST_F(HostedRendezvousTest, withdrawal_of_all_that_comes_late_takes_nothing_that_is_newer) {
  auto listener = PeerListener::open({.address = address}, clock).value();
  std::map<MetadataName, Bytes> there;
  bool is_busy = false;
  listener->on_change([&](const Change& change) -> Status {
    if (change.metadata) {
      there[change.name] = *change.metadata;
      return {};
    }
    if (is_busy) return error(Code::unavailable, "not now");
    std::erase_if(there, [&](const auto& each) { return covers(change.name, each.first); });
    return {};
  });
  const auto arrived = [&] {
    listener->progress();
    return guest->standing().pending == 0;
  };
  const MetadataName part("a", "part");
  guest = HostedRendezvous::open({.address = address, .tls = {}, .hosts = false}, clock).value();
  ASSERT_TRUE(guest->publish("a", as_bytes("full")).ok());
  ASSERT_TRUE(soon(arrived));
  is_busy = true;
  ASSERT_TRUE(guest->withdraw("a").ok());
  ASSERT_TRUE(guest->publish(part, as_bytes("part")).ok());
  ASSERT_TRUE(soon([&] { return arrived(), there.contains(part); }));
  is_busy = false;
  ASSERT_TRUE(soon(arrived));
  EXPECT_EQ(there, (std::map<MetadataName, Bytes>{{part, to_bytes("part")}}));
}

TEST_F(HostedRendezvousTest, guest_whose_host_is_gone_says_so) {
  host = join();
  guest = join();
  host.reset();
  ASSERT_TRUE(guest->publish("g", as_bytes("card")).ok());
  ASSERT_TRUE(soon([&] { return !guest->standing().trouble.ok(); }));
  EXPECT_EQ(guest->standing().pending, 1U);
  EXPECT_EQ(ask(*guest, "g").code(), Code::not_found);
  host = join();
  EXPECT_TRUE(soon([&] { return guest->standing().pending == 0; })) << "another host came";
}

TEST_F(HostedRendezvousTest, guest_whose_host_has_no_such_name_says_so) {
  tls = provider_of(test_tls("a secret of both"));
  guest = HostedRendezvous::open(
              {.address = net::TcpAddress{"nothing.invalid", 1}, .tls = tls, .hosts = false}, clock)
              .value();
  ASSERT_TRUE(guest->publish("g", as_bytes("metadata")).ok());
  ASSERT_TRUE(soon([&] { return !guest->standing().trouble.ok(); }));
  EXPECT_EQ(guest->standing().pending, 1U);
}

TEST_F(HostedRendezvousTest, fetch_in_flight_is_not_answered_by_the_farewell) {
  host = join();
  guest = join();
  ASSERT_TRUE(guest->publish("g", as_bytes("of guest")).ok());
  ASSERT_TRUE(soon([&] { return guest->standing().pending == 0; }));
  auto serving = run::Worker::start("host", [&](const run::StopToken& stop) {
                   auto poller = run::Poller::open().value();
                   (void)poller.add(host->wait_fd(), 0);
                   (void)poller.add(stop.fd(), 1);
                   while (!stop.stop_requested()) {
                     (void)poller.wait(Duration::max());
                     host->progress();
                   }
                 }).value();
  bool answered = false;
  const auto note = [&](const Result<Bytes>&) { answered = true; };
  ASSERT_TRUE(guest->fetch("g", Deadline::never(), note).ok());
  guest.reset();
  EXPECT_FALSE(answered);
}

TEST_F(HostedRendezvousTest, what_guests_leave_is_bounded) {
  host = HostedRendezvous::open({.address = address, .max_metadata = 2, .max_bytes = 100}, clock)
             .value();
  EXPECT_TRUE(host->publish("a", Bytes(60)).ok());
  EXPECT_EQ(host->publish("b", Bytes(41)).code(), Code::exhausted);
  EXPECT_TRUE(host->publish("a", Bytes(50)).ok()) << "the old one makes room";
  EXPECT_TRUE(host->publish("b", Bytes(50)).ok());
  EXPECT_TRUE(host->withdraw("a").ok());
  EXPECT_TRUE(host->publish("c", Bytes(1)).ok());
  EXPECT_EQ(host->publish("d", Bytes(1)).code(), Code::exhausted);
  EXPECT_TRUE(host->withdraw("b").ok());
  guest = join();
  for (const char* name : {"g1", "g2"}) EXPECT_TRUE(guest->publish(name, Bytes(1)).ok());
  const auto one_is_refused = [&] {
    return guest->standing().pending == 1 && !guest->standing().trouble.ok();
  };
  ASSERT_TRUE(soon(one_is_refused));
  EXPECT_EQ(guest->standing().trouble.code(), Code::exhausted)
      << guest->standing().trouble.to_string();
  EXPECT_EQ(ask(*host, "g2").code(), Code::not_found);
  EXPECT_TRUE(host->withdraw("c").ok());
  EXPECT_TRUE(soon([&] { return guest->standing().pending == 0; })) << "there is room again";
  EXPECT_EQ(ask(*host, "g2").value(), Bytes(1));
}

TEST_F(HostedRendezvousTest, guests_leave_as_much_as_a_host_and_take_it) {
  host = join();
  guest = join();
  for (const std::size_t size : {std::size_t{2} << 20U, kMaxMetadataBytes}) {
    ASSERT_TRUE(guest->publish("g", Bytes(size)).ok());
    ASSERT_TRUE(soon([&] { return guest->standing().pending == 0; }))
        << guest->standing().trouble.to_string();
    for (HostedRendezvous* each : {host.get(), guest.get()})
      EXPECT_EQ(ask(*each, "g").value().size(), size);
  }
}

TEST_F(HostedRendezvousTest, address_that_others_reach_needs_a_token) {
  EXPECT_EQ(HostedRendezvous::open({.address = net::TcpAddress{"0.0.0.0", 0}}, clock).code(),
            Code::denied);
}

}  // namespace
}  // namespace towpath::rendezvous
