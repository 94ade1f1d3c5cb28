// The small values of core: kinds, states, checked arithmetic, instants.
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <towpath/core/checked.h>
#include <towpath/core/clock.h>
#include <towpath/core/memory_kind.h>
#include <towpath/core/secret.h>
#include <towpath/core/transfer_state.h>

namespace towpath {
namespace {

TEST(MemoryKindTest, names_go_both_ways_and_fold_case) {
  for (MemoryKind kind : kMemoryKinds) EXPECT_EQ(memory_kind_from_name(name_of(kind)), kind);
  EXPECT_EQ(memory_kind_from_name("DISK"), MemoryKind::disk);
  EXPECT_FALSE(memory_kind_from_name("dis"));
  EXPECT_EQ(memory_kind_from_number(5), MemoryKind::block);
  EXPECT_FALSE(memory_kind_from_number(6));
  EXPECT_EQ(name_of(static_cast<MemoryKind>(99)), "unknown");
}

TEST(TransferStateTest, operations_are_known_by_name) {
  EXPECT_EQ(transfer_op_from_name("WRITE"), TransferOp::write);
  EXPECT_EQ(transfer_op_from_name(name_of(TransferOp::read)), TransferOp::read);
  EXPECT_FALSE(transfer_op_from_name("rea"));
}

TEST(TransferStateTest, every_value_has_a_name) {
  EXPECT_EQ(name_of(TransferOp::read), "read");
  EXPECT_EQ(name_of(TransferState::draining), "draining");
  EXPECT_EQ(name_of(Outcome::peer_lost), "peer_lost");
}

TEST(CheckedTest, says_when_it_would_wrap) {
  EXPECT_EQ(checked_add(1, 2), 3U);
  EXPECT_FALSE(checked_add(UINT64_MAX, 1));
  EXPECT_FALSE(checked_multiply(1ULL << 33, 1ULL << 31));
  EXPECT_EQ(align_up(513, 512), 1024U);
  EXPECT_EQ(align_up(512, 512), 512U);
  EXPECT_FALSE(align_up(UINT64_MAX, 2));
  EXPECT_TRUE(range_fits(4, 4, 8));
  EXPECT_FALSE(range_fits(4, 5, 8));
  EXPECT_FALSE(range_fits(9, 0, 8));
  EXPECT_FALSE(range_fits(4, UINT64_MAX, 8));
}

TEST(ClockTest, deadlines_saturate_instead_of_wrapping) {
  EXPECT_EQ(Instant{5} + Duration(7), Instant{12});
  EXPECT_EQ(Instant{5} + Duration::max(), Instant::never());
  ManualClock clock;
  const Instant before = clock.now();
  clock.advance(std::chrono::milliseconds(2));
  EXPECT_EQ(clock.now() - before, std::chrono::milliseconds(2));
}

TEST(SecretTest, moves_its_text_and_leaves_none_of_it_behind) {
  for (const std::size_t length : {8U, 100U}) {  // in the object, and on the heap
    Secret from(std::string(length, 'k'));
    const char* const begin = from.reveal().data();
    const Secret to(std::move(from));
    EXPECT_EQ(to.reveal(), std::string(length, 'k'));
    EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move)
    if (length > sizeof(std::string))
      EXPECT_EQ(to.reveal().data(), begin) << "a copy may find no memory, where no throw may pass";
    else
      EXPECT_EQ(std::string_view(begin, length), std::string(length, '\0'));
  }
}

}  // namespace
}  // namespace towpath
