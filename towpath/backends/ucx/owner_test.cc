#include <algorithm>

#include <gtest/gtest.h>

#include <towpath/backends/ucx/owner.h>

namespace towpath::backends::ucx {
namespace {

/// A registration, and writes to it.
class OwnerTest : public ::testing::Test {
 protected:
  OwnerTest() {
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      bytes_[i] = static_cast<std::byte>(i * 2654435761U >> 24U | 1U);  // none is 0
  }
  /// A piece `offset` bytes behind the begin of the pool.
  Piece piece(std::uint64_t offset, std::uint32_t length, std::uint32_t count = 1,
              std::uint64_t stride = 0) const {
    return {.token = token_,
            .address = region_.address + offset,
            .stride = stride,
            .length = length,
            .count = count};
  }
  /// Whether all of it was placed; the grant is fresh for the first `looks` at it.
  bool write(const std::vector<Piece>& pieces, int looks = 1000) {
    FrameWriter frame(room_, {.kind = FrameKind::write});
    std::uint64_t length = 0;
    for (const Piece& one : pieces) {
      frame.add(one);
      length += one.bytes();
    }
    frame.append(ConstByteSpan(bytes_).first(length));
    const auto decoded = decode_frame(ConstByteSpan(room_).first(frame.finish()));
    EXPECT_TRUE(decoded.ok()) << decoded.status().to_string();
    FrameWriter answer(answer_, {.kind = FrameKind::wrote});
    Grant grant([looks]() mutable { return looks-- > 0; });
    const bool placed = owner_.place(*decoded, answer, grant);
    refused_ = answer.count();
    return placed;
  }
  std::uint64_t landed() const {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(pool_, [](std::byte byte) { return byte != std::byte{0}; }));
  }

  Bytes bytes_ = Bytes(kPayloadBytes);
  Bytes pool_ = Bytes(2 * kPayloadBytes);
  Bytes room_ = Bytes(kFrameBytes);
  Bytes answer_ = Bytes(kFrameBytes);
  const RegionDescriptor region_{.address = address_of(pool_.data()), .length = pool_.size()};
  Owner owner_;
  const std::uint64_t token_ = owner_.add(region_);
  unsigned refused_ = 0;
};

TEST_F(OwnerTest, pieces_of_every_form_land_where_they_belong) {
  constexpr std::uint32_t kStep = Grant::kStepBytes;
  const std::vector<Piece> forms = {
      piece(1, kPayloadBytes),                // one stretch, in steps
      piece(0, 2 * kStep - 1, 2, 2 * kStep),  // steps that end inside of stretches
      piece(7, 1000, 500, 1001),              // many stretches in a step
      piece(0, kStep, 4, 2 * kStep),          // a step each
      piece(3, kStep / 2 + 1, 7, kStep + 5),  // a stretch and no second one
      piece(pool_.size() - 5, 5),
  };
  for (const Piece& form : forms) {
    std::ranges::fill(pool_, std::byte{0});
    EXPECT_TRUE(write({form}));
    Bytes expected(pool_.size());
    for (std::uint64_t k = 0; k < form.count; ++k)
      std::ranges::copy(ConstByteSpan(bytes_).subspan(k * form.length, form.length),
                        expected.begin() + static_cast<std::ptrdiff_t>(
                                               form.address - region_.address + k * form.stride));
    EXPECT_TRUE(pool_ == expected) << form.count << " x " << form.length;
    EXPECT_EQ(refused_, 0U);
  }
}

// A side that is stopped in the midst of a frame, and goes on when the writer has given up.
TEST_F(OwnerTest, grant_that_runs_out_ends_the_bytes_at_the_next_step) {
  for (const int looks : {0, 1, 3}) {
    std::ranges::fill(pool_, std::byte{0});
    EXPECT_FALSE(write({piece(0, kPayloadBytes)}, looks));
    EXPECT_EQ(landed(), static_cast<std::uint64_t>(looks) * Grant::kStepBytes);
  }
  std::ranges::fill(pool_, std::byte{0});
  EXPECT_TRUE(write({piece(0, kPayloadBytes)}, kPayloadBytes / Grant::kStepBytes));
}

TEST_F(OwnerTest, short_pieces_share_a_look_at_the_grant) {
  const std::vector<Piece> pieces = {piece(0, 4096), piece(8192, 4096), piece(65536, 8, 100, 64)};
  EXPECT_TRUE(write(pieces, 1));
  EXPECT_EQ(landed(), 2 * 4096U + 800U);
  EXPECT_FALSE(write(pieces, 0));
}

TEST_F(OwnerTest, what_is_refused_asks_for_no_grant) {
  Piece beyond = piece(pool_.size() - 4, 8);
  EXPECT_TRUE(write({beyond}, 0));
  EXPECT_EQ(refused_, 1U);
  EXPECT_EQ(landed(), 0U);
}

}  // namespace
}  // namespace towpath::backends::ucx
