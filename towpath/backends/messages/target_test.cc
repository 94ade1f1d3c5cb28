#include <algorithm>
#include <climits>

#include <gtest/gtest.h>

#include <towpath/backends/messages/inbound_frames.h>

namespace towpath::backends::messages {
namespace {

constexpr std::uint64_t kStepBytes = InboundWrite::kStepBytes;

/// A registration, and writes to it.
class TargetTest : public ::testing::Test {
 protected:
  TargetTest() {
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
    FrameWriter frame(buffer_, {.kind = FrameKind::write});
    std::uint64_t length = 0;
    for (const Piece& one : pieces) {
      frame.add(one);
      length += one.bytes();
    }
    const ConstByteSpan payload = ConstByteSpan(bytes_).first(length);
    frame.finish();
    const auto decoded = decode_frame(buffer_.filled(), length);
    EXPECT_TRUE(decoded.ok()) << decoded.status().to_string();
    InboundWrite inbound([this](InboundWrite& done, bool whole) {
      EXPECT_TRUE(whole);
      refused_ = static_cast<unsigned>(done.refusals().size());
    });
    looks_ = looks;
    inbound.begin(*decoded, target_, [this] { return looks_-- > 0; });
    for (std::size_t at = 0;
         at < length && inbound.take(payload.subspan(at, std::min(step_, length - at)));)
      at += step_;
    inbound.done(true);
    return !inbound.is_stale();
  }
  std::uint64_t landed() const {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(pool_, [](std::byte byte) { return byte != std::byte{0}; }));
  }

  Bytes bytes_ = Bytes(kPayloadBytes);
  Bytes pool_ = Bytes(2 * kPayloadBytes);
  net::MessageBuffer buffer_{kFrameBytes};
  std::uint64_t step_ = SIZE_MAX / 2;  ///< bytes of a payload that come at once
  int looks_ = 0;
  const RegionDescriptor region_{.address = address_of(pool_.data()), .length = pool_.size()};
  sys::GuardedCopy guard_;
  Target target_{guard_};
  const std::uint64_t token_ = target_.add(region_);
  unsigned refused_ = 0;
};

TEST_F(TargetTest, pieces_of_every_form_land_where_they_belong) {
  constexpr std::uint32_t kStep = kStepBytes;
  const std::vector<Piece> forms = {
      piece(1, kPayloadBytes),                // one extent, in steps
      piece(0, 2 * kStep - 1, 2, 2 * kStep),  // steps that end inside of extents
      piece(7, 1000, 500, 1001),              // many extents in a step
      piece(0, kStep, 4, 2 * kStep),          // a step each
      piece(3, kStep / 2 + 1, 7, kStep + 5),  // an extent and no second one
      piece(pool_.size() - 5, 5),
  };
  for (const std::uint64_t step : {SIZE_MAX / 2, 10'007UL, 61UL})
    for (const Piece& form : forms) {
      step_ = step;
      std::ranges::fill(pool_, std::byte{0});
      EXPECT_TRUE(write({form}, INT_MAX));
      Bytes expected(pool_.size());
      for (std::uint64_t k = 0; k < form.count; ++k)
        std::ranges::copy(ConstByteSpan(bytes_).subspan(k * form.length, form.length),
                          expected.begin() + static_cast<std::ptrdiff_t>(
                                                 form.address - region_.address + k * form.stride));
      EXPECT_TRUE(are_same_bytes(pool_, expected)) << form.count << " x " << form.length;
      EXPECT_EQ(refused_, 0U);
    }
}

// A side that is stopped in the midst of a frame, and goes on when the writer has given up.
TEST_F(TargetTest, grant_that_runs_out_ends_the_bytes_at_the_next_step) {
  for (const int looks : {0, 1, 3}) {
    std::ranges::fill(pool_, std::byte{0});
    EXPECT_FALSE(write({piece(0, kPayloadBytes)}, looks));
    EXPECT_EQ(landed(), static_cast<std::uint64_t>(looks) * kStepBytes);
  }
  std::ranges::fill(pool_, std::byte{0});
  EXPECT_TRUE(write({piece(0, kPayloadBytes)}, kPayloadBytes / kStepBytes));
}

TEST_F(TargetTest, pieces_share_a_look_at_the_grant) {
  const std::vector<Piece> straight = {piece(0, 4096), piece(8192, 4096)};
  EXPECT_TRUE(write(straight, 1));
  EXPECT_EQ(landed(), 2 * 4096U);
  EXPECT_FALSE(write(straight, 0));
  const std::vector<Piece> gathered = {piece(65536, 8, 100, 64), piece(131072, 16)};
  EXPECT_TRUE(write(gathered, 1));
  EXPECT_EQ(landed(), 2 * 4096U + 816U);
  EXPECT_FALSE(write(gathered, 0));
}

// Each part of a frame may find another owner: a registration that is taken back while a frame
// comes gets no byte of what comes later, and the piece has one verdict.
TEST_F(TargetTest, registration_that_is_taken_back_in_between_gets_nothing_more) {
  FrameWriter frame(buffer_, {.kind = FrameKind::write});
  frame.add(piece(0, kPayloadBytes / 2));
  frame.add(piece(kPayloadBytes, 8, 64, 64));
  frame.finish();
  const std::uint64_t length = kPayloadBytes / 2 + 512;
  const auto decoded = decode_frame(buffer_.filled(), length);
  ASSERT_TRUE(decoded.ok());
  InboundWrite inbound([](InboundWrite&, bool) {});
  inbound.begin(*decoded, target_, [] { return true; });
  EXPECT_TRUE(inbound.take(ConstByteSpan(bytes_).first(1000)));
  target_.remove(token_);
  EXPECT_TRUE(inbound.take(ConstByteSpan(bytes_).subspan(1000, length - 1000)));
  inbound.done(true);
  EXPECT_EQ(landed(), 1000U);
  ASSERT_EQ(inbound.refusals().size(), 2U);
  EXPECT_EQ(inbound.refusals()[0].piece, 0U);
  EXPECT_EQ(inbound.refusals()[0].code, Code::not_found);
  EXPECT_FALSE(inbound.is_stale());
}

/// Whoever is asked to copy what has not left.
struct Path final : net::MessageEndpoint {
  std::size_t unsent() const noexcept override { return 0; }
  std::uint64_t unsent_bytes() const noexcept override { return 0; }
  Status send(std::unique_ptr<net::MessageBuffer>, net::BodySource*, std::uint64_t,
              std::optional<unsigned>) override {
    return {};
  }
  void copy(net::BodySource& rest) override {
    auto& reply = dynamic_cast<ReadReply&>(rest);
    net::append_rest(kept, rest, reply.bytes());
    ++copies;
  }
  net::MessageBuffer kept{kFrameBytes};
  int copies = 0;
};

TEST_F(TargetTest, what_has_not_left_is_copied_before_it_is_taken_back) {
  for (std::size_t i = 0; i < pool_.size(); ++i) pool_[i] = bytes_[i % bytes_.size()];
  net::MessageBuffer asked(kFrameBytes);
  FrameWriter frame(asked, {.kind = FrameKind::read, .flags = kTrailer});
  frame.add(piece(4096, 64 * 1024));
  frame.add({.token = token_ + 1, .address = region_.address, .length = 4096});
  frame.add(piece(2 * 64 * 1024, 32 * 1024, 2, 64 * 1024));
  frame.finish();
  const auto read = decode_frame(asked.filled(), 0);
  ASSERT_TRUE(read.ok());
  FrameWriter answer(buffer_, {.kind = FrameKind::data});
  ReadReply* const rest = target_.gather(*read, answer);
  ASSERT_NE(rest, nullptr) << "so many bytes leave from where they lie";
  EXPECT_EQ(answer.count(), 1U);
  EXPECT_EQ(rest->bytes(), 2 * 64 * 1024U + sizeof(Trailer));
  Path path;
  rest->path = &path;
  rest->left(1000);
  const RegionDescriptor other{.address = region_.address, .length = 64};
  target_.remove(target_.add(other));
  EXPECT_EQ(path.copies, 0) << "it is not of that registration";
  target_.remove(token_);
  ASSERT_EQ(path.copies, 1);
  EXPECT_FALSE(rest->is_leaving());
  Bytes expected(pool_.begin() + 4096, pool_.begin() + 4096 + 64 * 1024);
  expected.insert(expected.end(), pool_.begin() + 128 * 1024, pool_.begin() + 160 * 1024);
  expected.insert(expected.end(), pool_.begin() + 192 * 1024, pool_.begin() + 224 * 1024);
  expected.erase(expected.begin(), expected.begin() + 1000);
  expected.resize(expected.size() + sizeof(Trailer));  // all of it could be read
  const ConstByteSpan kept = path.kept.filled();
  EXPECT_TRUE(std::ranges::equal(kept, expected));
}

TEST_F(TargetTest, what_is_read_only_is_read_and_not_written) {
  RegionDescriptor read_only = region_;
  read_only.is_read_only = true;
  Piece whole = piece(0, 64);
  whole.token = target_.add(read_only);
  EXPECT_TRUE(write({piece(64, 64), whole}));
  EXPECT_EQ(refused_, 1U);
  EXPECT_EQ(landed(), 64U);
  using Direction = sys::GuardedCopy::Direction;
  EXPECT_EQ(target_.judge(whole, Direction::into_memory).verdict, Code::io_error);
  EXPECT_EQ(target_.judge(whole, Direction::out_of_memory).verdict, Code::ok);
}

TEST_F(TargetTest, what_is_refused_asks_for_no_grant) {
  Piece beyond = piece(pool_.size() - 4, 8);
  EXPECT_TRUE(write({beyond}, 0));
  EXPECT_EQ(refused_, 1U);
  EXPECT_EQ(landed(), 0U);
}

}  // namespace
}  // namespace towpath::backends::messages
