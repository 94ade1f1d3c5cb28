#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/blockcopy/route.h>

namespace towpath::blockcopy {
namespace {

using ::testing::HasSubstr;

struct Row {
  RouteEnd source, target;
  Mover first, second;
};

void expect(const Row& row, const RouteFacts& facts = {}) {
  const Route route = choose(row.source, row.target, facts);
  EXPECT_EQ(route.first, row.first) << to_string(route);
  EXPECT_EQ(route.second, row.second) << to_string(route);
  EXPECT_FALSE(route.reason.empty());
}

TEST(RouteTest, every_pair_of_ends_has_a_route) {
  const auto none = Mover::none;
  const auto engine = Mover::engine;
  const auto read = Mover::read;
  const auto write = Mover::write;
  const auto host = RouteEnd::host;
  const auto device = RouteEnd::device;
  const auto storage = RouteEnd::storage;
  const auto remote = RouteEnd::remote;
  const Row rows[] = {
      {host, host, Mover::memory, none}, {host, device, engine, none},
      {host, storage, write, none},      {host, remote, write, none},
      {device, host, engine, none},      {device, device, engine, none},
      {device, storage, engine, write},  {device, remote, engine, write},
      {storage, host, read, none},       {storage, device, read, engine},
      {storage, storage, read, write},   {storage, remote, read, write},
      {remote, host, read, none},        {remote, device, read, engine},
      {remote, storage, read, write},    {remote, remote, read, write},
  };
  for (const Row& row : rows) expect(row);
}

TEST(RouteTest, a_direct_way_that_was_proven_is_taken) {
  const RouteFacts drive{.storage_reaches_device = true};
  expect({RouteEnd::device, RouteEnd::storage, Mover::write, Mover::none}, drive);
  expect({RouteEnd::storage, RouteEnd::device, Mover::read, Mover::none}, drive);
  expect({RouteEnd::device, RouteEnd::remote, Mover::engine, Mover::write}, drive);
  const RouteFacts wire{.remote_reaches_device = true};
  expect({RouteEnd::device, RouteEnd::remote, Mover::write, Mover::none}, wire);
  expect({RouteEnd::remote, RouteEnd::device, Mover::read, Mover::none}, wire);
  expect({RouteEnd::storage, RouteEnd::device, Mover::read, Mover::engine}, wire);
}

TEST(RouteTest, short_pieces_are_reordered_in_host_memory) {
  const RouteFacts short_pieces{.reorders_short_pieces = true};
  expect({RouteEnd::host, RouteEnd::storage, Mover::memory, Mover::write}, short_pieces);
  expect({RouteEnd::remote, RouteEnd::host, Mover::read, Mover::memory}, short_pieces);
  expect({RouteEnd::host, RouteEnd::device, Mover::memory, Mover::engine}, short_pieces);
  expect({RouteEnd::host, RouteEnd::host, Mover::memory, Mover::none}, short_pieces);
}

TEST(RouteTest, short_pieces_go_by_a_kernel_where_it_reaches_both_ends) {
  const RouteFacts with{
      .reorders_short_pieces = true, .has_short_pieces = true, .kernel_reaches_both = true};
  expect({RouteEnd::device, RouteEnd::device, Mover::kernel, Mover::none}, with);
  expect({RouteEnd::host, RouteEnd::device, Mover::kernel, Mover::none}, with);
  expect({RouteEnd::device, RouteEnd::host, Mover::kernel, Mover::none}, with);
  expect({RouteEnd::device, RouteEnd::storage, Mover::engine, Mover::write}, with);
  expect({RouteEnd::host, RouteEnd::host, Mover::memory, Mover::none}, with);
  const RouteFacts bounced{.has_short_pieces = true, .kernel_reaches_bounce = true};
  expect({RouteEnd::device, RouteEnd::storage, Mover::kernel, Mover::write}, bounced);
  expect({RouteEnd::remote, RouteEnd::device, Mover::read, Mover::kernel}, bounced);
  expect({RouteEnd::storage, RouteEnd::storage, Mover::read, Mover::write}, bounced);
  expect({RouteEnd::device, RouteEnd::host, Mover::engine, Mover::none}, bounced);
  RouteFacts without = with;
  without.kernel_reaches_both = false;
  expect({RouteEnd::device, RouteEnd::device, Mover::engine, Mover::none}, without);
  expect({RouteEnd::host, RouteEnd::device, Mover::memory, Mover::engine}, without);
  EXPECT_THAT(to_string(choose(RouteEnd::device, RouteEnd::device, without)),
              HasSubstr("has no kernel"));
}

TEST(RouteTest, devices_that_do_not_reach_each_other_go_by_the_host) {
  const RouteFacts apart{.devices_reach_each_other = false, .is_same_device = false};
  expect({RouteEnd::device, RouteEnd::device, Mover::engine, Mover::engine}, apart);
  expect({RouteEnd::device, RouteEnd::device, Mover::engine, Mover::none},
         {.devices_reach_each_other = false, .is_same_device = true});
}

TEST(RouteTest, kinds_stand_for_ends) {
  EXPECT_EQ(end_of(MemoryKind::pinned, false), RouteEnd::host);
  EXPECT_EQ(end_of(MemoryKind::block, false), RouteEnd::storage);
  EXPECT_EQ(end_of(MemoryKind::object, false), RouteEnd::storage);
  EXPECT_EQ(end_of(MemoryKind::system, true), RouteEnd::remote);
  EXPECT_THAT(to_string(choose(RouteEnd::device, RouteEnd::storage, {})),
              HasSubstr("device to storage: engine, then write: no direct way"));
}

}  // namespace
}  // namespace towpath::blockcopy
