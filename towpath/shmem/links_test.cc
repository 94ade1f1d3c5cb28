// Links over a network that is none: order, silence, and frames that no PE would send.
#include <cstring>

#include <gtest/gtest.h>

#include <towpath/core/clock.h>
#include <towpath/net/messages/testing/fake_network.h>
#include <towpath/shmem/messages/links.h>

namespace towpath::shmem {
namespace {

using net::testing::FakeNetwork;

constexpr std::uint64_t kKeyOfJob = 7;
constexpr std::uint64_t kHeap = 4096;

/// PE 0 of two, each on a host of its own; the test speaks as PE 1.
class LinksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    files_ = *create_job({.pes = 2, .heap_bytes = kHeap, .heaps = 1});
    job_.emplace(*JobView::map(files_.control.get()));
    const auto make_worker =
        [this](const net::UcxOptions&,
               net::MessageListener& listener) -> Result<std::unique_ptr<net::MessageWorker>> {
      return network_.open(256 * 1024, listener);
    };
    ASSERT_TRUE(links_.open({}, make_worker).ok());
    PeerGroup group{.key = kKeyOfJob, .addresses = {{}, Bytes(sizeof(std::uint64_t))}};
    ASSERT_TRUE(links_.greet({.job = &*job_, .my_pe = 0, .heap = heap_}, std::move(group)).ok());
  }

  Links::WorkerMaker make_worker() {
    return [this](const net::UcxOptions&,
                  net::MessageListener& listener) -> Result<std::unique_ptr<net::MessageWorker>> {
      return network_.open(256 * 1024, listener);
    };
  }
  void say(FrameHeader header, ConstByteSpan payload = {}) {
    header.from = 1;
    if (header.key == 0) header.key = kKeyOfJob;
    if (header.sequence == 0) header.sequence = ++said_;
    Bytes message(kFrameHeaderBytes);
    encode_header(header, message);
    message.insert(message.end(), payload.begin(), payload.end());
    network_.send(network_.last(), message);
    while (links_.turn()) {
    }
  }
  PeState state_of_other() { return static_cast<PeState>(job_->pe(1).state.load()); }

  ManualClock clock_;
  FakeNetwork network_;
  JobFiles files_;
  std::optional<JobView> job_;
  Bytes heap_ = Bytes(kHeap);
  Links links_{clock_, {}};
  std::uint64_t said_ = 0;
};

TEST_F(LinksTest, frames_take_place_in_the_order_of_their_numbers) {
  say({.kind = FrameKind::put, .sequence = 2}, as_bytes("second"));
  EXPECT_EQ(as_text(ConstByteSpan(heap_).first(6)), std::string_view("\0\0\0\0\0\0", 6));
  say({.kind = FrameKind::put, .sequence = 1}, as_bytes("first."));
  EXPECT_EQ(as_text(ConstByteSpan(heap_).first(6)), "second");
  say({.kind = FrameKind::put, .sequence = 1}, as_bytes("again."));
  EXPECT_EQ(as_text(ConstByteSpan(heap_).first(6)), "second");
}

TEST_F(LinksTest, other_jobs_are_not_heard) {
  say({.kind = FrameKind::put, .key = kKeyOfJob + 1}, as_bytes("theirs"));
  EXPECT_EQ(heap_[0], std::byte{0});
  EXPECT_TRUE(links_.find(1).ok());
}

TEST_F(LinksTest, who_says_nothing_is_lost_in_time) {
  say({.kind = FrameKind::hello, .operand = 99});
  EXPECT_EQ(state_of_other(), PeState::running);
  for (int second = 0; second < 4; ++second) {
    clock_.advance(std::chrono::seconds(1));
    links_.turn();
  }
  EXPECT_TRUE(links_.find(1).ok());
  clock_.advance(std::chrono::seconds(1));
  links_.turn();
  const auto link = links_.find(1);
  EXPECT_EQ(link.code(), Code::peer_lost);
  EXPECT_EQ(link.status().message(), "PE 1 was silent for 5000 ms");
  EXPECT_EQ(state_of_other(), PeState::lost);
  EXPECT_TRUE(links_.are_quiet());
}

TEST_F(LinksTest, what_cannot_be_sent_is_reported_with_the_pe) {
  network_.refusal = error(Code::peer_lost, "the way is cut");
  Link* const link = links_.find(1).value();
  EXPECT_EQ(links_.send(*link, {.kind = FrameKind::beat}).message(), "PE 1: the way is cut");
}

TEST_F(LinksTest, who_was_stopped_itself_does_not_blame_others) {
  say({.kind = FrameKind::hello});
  clock_.advance(std::chrono::minutes(1));
  links_.turn();
  EXPECT_TRUE(links_.find(1).ok());
}

TEST_F(LinksTest, words_are_changed_and_answered_by_every_operation) {
  const std::uint64_t before = 0xf0, operand = 0x3c;
  const std::map<ChangeOp, std::uint64_t> after = {
      {ChangeOp::fetch, 0xf0},        {ChangeOp::swap, 0x3c},    {ChangeOp::add, 0x12c},
      {ChangeOp::compare_swap, 0x3c}, {ChangeOp::bit_and, 0x30}, {ChangeOp::bit_or, 0xfc},
      {ChangeOp::bit_xor, 0xcc}};
  for (const auto& [op, wanted] : after)
    for (const std::uint8_t bytes : {4, 8}) {
      std::memcpy(heap_.data(), &before, sizeof before);
      say({.kind = FrameKind::change,
           .op = op,
           .word_bytes = bytes,
           .ticket = 1,
           .operand = operand,
           .expected = before});
      std::uint64_t now = 0;
      std::memcpy(&now, heap_.data(), sizeof now);
      EXPECT_EQ(now, wanted) << static_cast<int>(op) << " on " << static_cast<int>(bytes);
    }
  EXPECT_TRUE(links_.find(1).ok());
}

TEST_F(LinksTest, who_reaches_outside_the_heap_is_lost) {
  const Bytes bytes(16);
  const std::vector<FrameHeader> wrong = {
      {.kind = FrameKind::put, .offset = kHeap - 8},
      {.kind = FrameKind::put, .offset = ~0ULL},
      {.kind = FrameKind::get, .aux = 16, .offset = kHeap - 8},
      {.kind = FrameKind::get, .aux = 1 << 20},
      {.kind = FrameKind::change, .word_bytes = 8, .offset = 4},
      {.kind = FrameKind::change, .word_bytes = 8, .offset = kHeap},
      {.kind = FrameKind::change, .word_bytes = 2},
      {.kind = FrameKind::arrival},
  };
  for (const FrameHeader& header : wrong) {
    Links fresh(clock_, {});
    ASSERT_TRUE(fresh.open({}, make_worker()).ok());
    ASSERT_TRUE(fresh
                    .greet({.job = &*job_, .my_pe = 0, .heap = heap_},
                           {.key = kKeyOfJob, .addresses = {{}, Bytes(sizeof(std::uint64_t))}})
                    .ok());
    FrameHeader frame = header;
    frame.key = kKeyOfJob;
    frame.from = frame.sequence = 1;
    Bytes message(kFrameHeaderBytes);
    encode_header(frame, message);
    message.insert(message.end(), bytes.begin(), bytes.end());
    network_.send(network_.last(), message);
    fresh.turn();
    EXPECT_EQ(fresh.find(1).code(), Code::corrupt) << static_cast<int>(header.kind);
  }
}

TEST_F(LinksTest, member_that_is_a_round_ahead_waits_for_the_round_to_end) {
  Barrier& barrier = job_->team(0).barrier;
  const auto arrival = [](std::uint32_t round) {
    return encode(ArrivalFrame{.news = {.member = 1,
                                        .members = 2,
                                        .round = round,
                                        .call = {.kind = CallKind::barrier},
                                        .note = 40 + round}});
  };
  say({.kind = FrameKind::arrival}, arrival(0));
  say({.kind = FrameKind::arrival}, arrival(1));
  EXPECT_EQ(barrier.round(), 0u);
  const std::uint64_t digest = digest_of({.kind = CallKind::barrier});
  EXPECT_TRUE(barrier.arrive(digest, 2));
  EXPECT_EQ(job_->line(0, 1, 0).note, 40u);
  EXPECT_FALSE(barrier.arrive(digest, 2)) << "the guest of the next round is not here yet";
  links_.turn();
  EXPECT_EQ(barrier.round(), 2u);
  EXPECT_EQ(job_->line(0, 1, 1).note, 41u);
  EXPECT_FALSE(barrier.differed_in(1));
}

}  // namespace
}  // namespace towpath::shmem
