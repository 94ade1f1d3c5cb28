// PEs that find each other by an identifier.
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/net/endpoint.h>
#include <towpath/run/eventually.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/testing/pes.h>
#include <towpath/shmem/unique_id.h>
#include <towpath/sys/local_socket.h>

namespace towpath::shmem {
namespace {

TEST(UniqueIdTest, bytes_make_the_round) {
  const UniqueId id = UniqueId::create();
  EXPECT_EQ(UniqueId::from_raw(id.raw())->raw(), id.raw());
  EXPECT_NE(UniqueId::create().raw(), id.raw());
  EXPECT_EQ(UniqueId::from_raw({}).code(), Code::invalid_argument);
}

TEST(UniqueIdTest, it_holds_where_pe_0_is_met) {
  const UniqueId id = UniqueId::create();
  const auto places = places_of(id);
  ASSERT_GE(places.size(), 1u);
  EXPECT_TRUE(net::is_local(places[0]));
  const auto own = net::own_endpoints();
  ASSERT_TRUE(own.ok());
  ASSERT_EQ(places.size(), 1 + 2 * std::min<std::size_t>(own->size(), 4));
  for (std::size_t i = 0; i < std::min<std::size_t>(own->size(), 4); ++i) {
    const auto& place = std::get<net::TcpAddress>(places[1 + i]);
    EXPECT_EQ(place.host, net::to_address((*own)[i]).host);
    EXPECT_GE(place.port, 20'000);
  }
  EXPECT_EQ(places_of(*UniqueId::from_raw(id.raw())), places);
  EXPECT_TRUE(token_of(*UniqueId::from_raw(id.raw())).secret() == token_of(id).secret());
  EXPECT_FALSE(token_of(UniqueId::create()).secret() == token_of(id).secret());
  EXPECT_EQ(places_of(UniqueId::create({.for_this_host = true, .interface = {}})).size(), 1u);
  EXPECT_EQ(places_of(UniqueId::create({.interface = "none"})).size(), 1u);
}

TEST(UniqueIdTest, separate_pes_meet_by_it) {
  const UniqueId id = UniqueId::create();
  testing::add_up(3, [&](int pe) {
    return Context::open({.my_pe = pe, .pes = 3, .unique_id = id, .heap_bytes = 1 << 20});
  });
}

TEST(UniqueIdTest, who_is_missing_is_named) {
  const JobFiles files = *create_job({.pes = 3, .heap_bytes = 1 << 20});
  Status hosted;
  EXPECT_TRUE(run::with_timeout(
      [&](Duration timeout) {
        const UniqueId id = UniqueId::create();
        std::jthread host([&] { hosted = hand_out(id, files, {0, 3, timeout}); });
        return receive(id, {.my_pe = 1, .pes = 3, .timeout = timeout}).ok();
      },
      std::chrono::milliseconds(100)));
  EXPECT_EQ(hosted.code(), Code::timed_out);
  EXPECT_EQ(hosted.message(), "waited for PE 2");
  const Joining nobody_there{.my_pe = 1, .pes = 3, .timeout = Duration(0)};
  EXPECT_EQ(receive(UniqueId::create(), nobody_there).code(), Code::timed_out);
}

TEST(UniqueIdTest, connections_that_say_nothing_hold_nobody_up) {
  const UniqueId id = UniqueId::create();
  std::uint64_t name = 0;
  std::memcpy(&name, id.raw().data() + 8, sizeof name);
  const sys::LocalAddress place{.name = cat("towpath-shmem-", hex(name)), .abstract = true};
  const Duration timeout = std::chrono::seconds(60);
  const JobFiles files = *create_job({.pes = 3, .heap_bytes = 1 << 20});
  Status hosted;
  std::jthread host([&] { hosted = hand_out(id, files, {0, 3, timeout}); });
  std::vector<sys::LocalSocket> silent;
  ASSERT_TRUE(run::eventually([&] {
    auto socket = sys::LocalSocket::connect(place);
    if (socket.ok()) silent.push_back(*std::move(socket));
    return silent.size() == 3;
  }));
  EXPECT_TRUE(receive(id, {.my_pe = 1, .pes = 3, .timeout = timeout}).ok());
  Bytes text(100);
  for (sys::LocalSocket& one : silent) {
    const auto received = one.receive(text);
    EXPECT_TRUE(received.ok() && received->nothing) << "it came before, and was waited for";
  }
  EXPECT_TRUE(receive(id, {.my_pe = 2, .pes = 3, .timeout = timeout}).ok());
  host.join();
  EXPECT_TRUE(hosted.ok()) << hosted.to_string();
}

TEST(UniqueIdTest, who_is_wrong_is_refused) {
  const UniqueId id = UniqueId::create();
  const Duration timeout = std::chrono::seconds(60);
  const JobFiles files = *create_job({.pes = 3, .heap_bytes = 1 << 20});
  Status hosted;
  std::jthread host([&] { hosted = hand_out(id, files, {0, 3, timeout}); });
  const auto other_count = receive(id, {.my_pe = 1, .pes = 4, .timeout = timeout});
  EXPECT_EQ(other_count.code(), Code::denied);
  EXPECT_NE(other_count.status().message().find("PE 1 of 4 PEs, where PE 0 knows of 3"),
            std::string_view::npos)
      << other_count.status().to_string();
  UniqueId::Raw raw = id.raw();
  raw[20] ^= std::byte{1};  // the secret, not the place
  EXPECT_EQ(receive(*UniqueId::from_raw(raw), {.my_pe = 1, .pes = 3, .timeout = timeout}).code(),
            Code::denied);
  EXPECT_TRUE(receive(id, {.my_pe = 1, .pes = 3, .timeout = timeout}).ok());
  EXPECT_EQ(receive(id, {.my_pe = 1, .pes = 3, .timeout = timeout}).code(), Code::denied);
  EXPECT_TRUE(receive(id, {.my_pe = 2, .pes = 3, .timeout = timeout}).ok());
  host.join();
  EXPECT_TRUE(hosted.ok()) << hosted.to_string();
}

}  // namespace
}  // namespace towpath::shmem
