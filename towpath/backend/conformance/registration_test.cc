// Conformance: memory is made known and taken back.
#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/world.h>
#include <towpath/memory/borrowed.h>

namespace towpath::backend::conformance {
namespace {

class RegistrationConformance : public PairingTest {};

TEST_P(RegistrationConformance, registered_memory_says_where_until_it_is_released) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  EXPECT_TRUE(world.near_pool.is_registered());
  EXPECT_FALSE(world.near_pool.backends().empty());
  EXPECT_EQ(world.near_pool.agent_name(), "near");
  const auto list = list_of(strided({.length = 64}), world.near_memory);
  EXPECT_TRUE(world.near().prepare(list).ok());
  EXPECT_TRUE(world.near_pool.release().ok());
  EXPECT_FALSE(world.near_pool.is_registered());
  EXPECT_EQ(world.near().prepare(list).code(), Code::not_found);
  EXPECT_TRUE(world.near_pool.release().ok()) << "released twice";
}

TEST_P(RegistrationConformance, same_memory_registered_twice_is_dropped_once) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  auto again = world.far().register_region(world.far_memory.region());
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_TRUE(world.far_pool.release().ok());
  const Shape shape{strided({.length = 4096}), strided({.length = 4096})};
  for (const TransferOp op : ways()) ASSERT_NO_FATAL_FAILURE(world.move(op, shape));
}

TEST_P(RegistrationConformance, memory_beyond_the_region_is_refused_by_index) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  const std::uint64_t end = world.far_memory.size();
  for (const Row& row : {Row{.offset = end - 10, .length = 11},
                         Row{.offset = end - 8192, .length = 4096, .stride = 4097, .count = 2}}) {
    const auto list = list_of(strided(row), world.far_memory);
    EXPECT_EQ(world.near().prepare_remote(world.far_name(), list).code(), Code::not_found);
  }
}

TEST_P(RegistrationConformance, kind_that_no_backend_takes_is_refused) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  const MemoryKind foreign =
      pairing().far == Store::object ? MemoryKind::block : MemoryKind::object;
  auto region = memory::BorrowedRegion::create(
      {.kind = foreign, .address = 1, .size_bytes = 4096, .keep_alive = {}});
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(world.near().register_region(*region).code(), Code::unsupported);
}

TEST_P(RegistrationConformance, file_that_is_not_open_is_refused) {
  if (pairing().far != Store::disk) GTEST_SKIP() << "a null address is refused by memory itself";
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  auto region = memory::BorrowedRegion::create(
      {.kind = MemoryKind::disk, .size_bytes = 4096, .device_id = 1'000'000, .keep_alive = {}});
  if (!region.ok()) return;  // refused even earlier
  EXPECT_FALSE(world.near().register_region(*region).ok());
}

TEST_P(RegistrationConformance, list_prepared_before_a_release_is_refused_at_post) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  const Shape shape{strided({.length = 4096}), strided({.length = 4096})};
  auto stale = world.make(TransferOp::read, shape);
  ASSERT_TRUE(stale.ok()) << stale.status().to_string();
  ASSERT_TRUE(world.near_pool.release().ok());
  EXPECT_EQ(stale->post().code(), Code::not_found);
  auto anew = world.near().register_region(world.near_memory.region());
  ASSERT_TRUE(anew.ok());
  EXPECT_EQ(stale->post().code(), Code::not_found) << "old lists do not come to life again";
  ASSERT_NO_FATAL_FAILURE(world.move(TransferOp::read, shape));
}

INSTANTIATE_TEST_SUITE_P(Backend, RegistrationConformance, testing::ValuesIn(all_pairings()),
                         Labels());

}  // namespace
}  // namespace towpath::backend::conformance
