// Links over a network that is none: order, silence, and frames that no PE would send.
#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <towpath/core/clock.h>
#include <towpath/net/messages/testing/fake_network.h>
#include <towpath/shmem/messages/links.h>
#include <towpath/shmem/testing/fake_pe.h>
#include <towpath/sys/mapping.h>

namespace towpath::shmem {
namespace {

using net::testing::FakeNetwork;
using testing::FakePe;

constexpr std::uint64_t kHeap = 4096;

/// PE 0 of two, each on a host of its own; the test speaks as PE 1.
class LinksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    files_ = *create_job({.pes = 2, .heap_bytes = kHeap, .heaps = 1});
    job_.emplace(*JobView::map(files_.control.get()));
    greet(links_, other_);
  }

  void greet(Links& links, FakePe& other) {
    ASSERT_TRUE(links.open(other.network()).ok());
    ASSERT_TRUE(links
                    .greet({.job = &*job_, .my_pe = 0, .heap = heap_},
                           {.secret = Secret(testing::kJobSecret), .places = {{}, other.place()}})
                    .ok());
  }
  void meet() {
    other_.meet(links_);
    ASSERT_TRUE((*links_.find(1))->is_open());
  }
  void turn() {
    while (links_.turn()) {
    }
  }
  void say(const FrameHeader& header, ConstByteSpan body = {}, ConstByteSpan arrival = {}) {
    other_.say(header, body, arrival);
    turn();
  }
  std::string_view begin_of_heap() const { return as_text(ConstByteSpan(heap_).first(6)); }
  PeState state_of_other() { return static_cast<PeState>(job_->pe(1).state.load()); }

  ManualClock clock_;
  FakeNetwork network_;
  FakePe other_{network_, 1};
  JobFiles files_;
  std::optional<JobView> job_;
  Bytes heap_ = Bytes(kHeap);
  Links links_{clock_, {}};
};

const std::string_view kNothing("\0\0\0\0\0\0", 6);

TEST_F(LinksTest, who_does_not_hold_the_secret_is_not_heard) {
  other_.meet(links_, std::string(32, 'x'));
  EXPECT_FALSE((*links_.find(1))->is_open());
  say({.kind = FrameKind::put}, as_bytes("theirs"));
  say({.kind = FrameKind::end_all, .operand = 1});
  EXPECT_EQ(begin_of_heap(), kNothing);
  EXPECT_EQ(state_of_other(), PeState::absent);
  EXPECT_EQ(other_.heard(), std::vector{FrameKind::handshake});
}

TEST_F(LinksTest, frames_before_both_are_proven_are_not_heard) {
  other_.look_for(links_);
  say({.kind = FrameKind::put}, as_bytes("theirs"));
  EXPECT_EQ(begin_of_heap(), kNothing);
  meet();
}

TEST_F(LinksTest, an_altered_head_ends_the_link_and_does_nothing) {
  meet();
  Bytes head = other_.sealed({.kind = FrameKind::put});
  head[32] = std::byte{8};  // its offset
  other_.send(head, as_bytes("theirs"));
  turn();
  EXPECT_EQ(begin_of_heap(), kNothing);
  EXPECT_EQ(links_.find(1).status().message(), "the session with PE 1 is not safe any more");
  EXPECT_EQ(state_of_other(), PeState::lost);
}

TEST_F(LinksTest, a_frame_that_comes_again_ends_the_link) {
  meet();
  const Bytes head = other_.sealed({.kind = FrameKind::put});
  other_.send(head, as_bytes("first."));
  turn();
  EXPECT_EQ(begin_of_heap(), "first.");
  other_.send(head, as_bytes("again."));
  turn();
  EXPECT_EQ(begin_of_heap(), "first.");
  EXPECT_EQ(links_.find(1).code(), Code::peer_lost);
}

/// Over a connection, and where each reaches the other.
class LinksOfTwoTest : public LinksTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Ways, LinksOfTwoTest, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "connection" : "both_reach"; });

TEST_P(LinksOfTwoTest, two_links_open_each_other) {
  network_.has_connections = GetParam();
  MessageNetwork network = other_.network();
  network.has_connections = GetParam();
  const JobFiles theirs = *create_job({.pes = 2, .heap_bytes = kHeap, .heaps = 1});
  const JobView their_job = *JobView::map(theirs.control.get());
  Bytes their_heap(kHeap);
  Links low(clock_, {}), high(clock_, {});
  ASSERT_TRUE(low.open(network).ok());
  ASSERT_TRUE(high.open(network).ok());
  const Secret secret(testing::kJobSecret);
  ASSERT_TRUE(low.greet({.job = &*job_, .my_pe = 0, .heap = heap_},
                        {.secret = secret, .places = {{}, high.place()}})
                  .ok());
  ASSERT_TRUE(high.greet({.job = &their_job, .my_pe = 1, .heap = their_heap},
                         {.secret = secret, .places = {low.place(), {}}})
                  .ok());
  const auto turn_both = [&] {
    for (bool some = true; some;) {
      some = low.turn();
      some |= high.turn();
    }
  };
  turn_both();
  ASSERT_TRUE(low.send(**low.find(1), {.kind = FrameKind::put}, as_bytes("hither")).ok());
  ASSERT_TRUE(high.send(**high.find(0), {.kind = FrameKind::put}, as_bytes("thither")).ok());
  turn_both();
  EXPECT_EQ(as_text(ConstByteSpan(their_heap).first(6)), "hither");
  EXPECT_EQ(begin_of_heap(), "thithe");
  EXPECT_TRUE((*low.find(1))->is_quiet((*low.find(1))->posted));
  EXPECT_TRUE((*high.find(0))->is_quiet((*high.find(0))->posted));
}

TEST_F(LinksTest, frames_take_place_in_the_order_of_their_numbers) {
  meet();
  say({.kind = FrameKind::put, .sequence = 3}, as_bytes("second"));
  EXPECT_EQ(begin_of_heap(), kNothing);
  say({.kind = FrameKind::put, .sequence = 2}, as_bytes("first."));
  EXPECT_EQ(begin_of_heap(), "second");
  say({.kind = FrameKind::put, .sequence = 2}, as_bytes("again."));
  EXPECT_EQ(begin_of_heap(), "second");
}

TEST_F(LinksTest, word_that_comes_in_parts_is_put_in_place_at_once) {
  meet();
  std::uint64_t port = 0;
  std::memcpy(&port, links_.place().address.data(), sizeof port);
  const Bytes head = other_.sealed({.kind = FrameKind::put, .offset = 8});
  const ConstByteSpan word = as_bytes("all of 8");
  const auto there = ConstByteSpan(heap_).subspan(8, 8);
  net::BodySink* const sink =
      network_.port(port).listener->on_message({.head = head, .body_bytes = 8});
  ASSERT_NE(sink, nullptr);
  EXPECT_TRUE(sink->take(word.first(3)));
  EXPECT_TRUE(std::ranges::equal(there, Bytes(8))) << "a PE may wait for it";
  EXPECT_TRUE(sink->take(word.subspan(3)));
  sink->done(true);
  EXPECT_EQ(as_text(there), "all of 8");
  say({.kind = FrameKind::put}, as_bytes("next"));
  EXPECT_EQ(as_text(ConstByteSpan(heap_).first(4)), "next");
}

TEST_F(LinksTest, a_part_of_a_long_put_is_not_taken_for_an_element) {
  meet();
  std::uint64_t port = 0;
  std::memcpy(&port, links_.place().address.data(), sizeof port);
  const auto element = [&](std::size_t at) { return ConstByteSpan(heap_).subspan(at, 8); };
  const auto yes = [] { return true; };
  const auto no = [] { return false; };
  const Condition holds = Condition::of(yes), fails = Condition::of(no);
  EXPECT_EQ(links_.looks_whole(element(16), holds), std::optional(true));
  EXPECT_EQ(links_.looks_whole(element(16), fails), std::optional(false));
  const Bytes head = other_.sealed({.kind = FrameKind::put, .offset = 8});
  const ConstByteSpan put = as_bytes("three words of 8 bytes..");
  net::BodySink* const sink =
      network_.port(port).listener->on_message({.head = head, .body_bytes = put.size()});
  ASSERT_NE(sink, nullptr);
  EXPECT_TRUE(links_.is_whole(element(16), holds)) << "nothing has come";
  EXPECT_TRUE(sink->take(put.first(12)));
  EXPECT_EQ(links_.looks_whole(element(16), holds), std::nullopt);
  EXPECT_TRUE(links_.is_whole(element(8), holds));
  EXPECT_FALSE(links_.is_whole(element(16), holds)) << "4 of its bytes are there";
  EXPECT_TRUE(links_.is_whole(element(24), holds));
  EXPECT_FALSE(links_.is_whole(element(24), fails));
  EXPECT_EQ(links_.looks_whole(element(32), holds), std::optional(true)) << "behind the put";
  EXPECT_TRUE(sink->take(put.subspan(12)));
  sink->done(true);
  EXPECT_EQ(links_.looks_whole(element(16), holds), std::optional(true));
  EXPECT_EQ(as_text(ConstByteSpan(heap_).subspan(8, put.size())), as_text(put));
}

TEST_F(LinksTest, a_long_put_that_breaks_off_is_waited_for_by_nobody) {
  meet();
  std::uint64_t port = 0;
  std::memcpy(&port, links_.place().address.data(), sizeof port);
  const auto yes = [] { return true; };
  const ConstByteSpan element = ConstByteSpan(heap_).first(8);
  const Bytes head = other_.sealed({.kind = FrameKind::put});
  net::BodySink* const sink =
      network_.port(port).listener->on_message({.head = head, .body_bytes = 24});
  ASSERT_NE(sink, nullptr);
  EXPECT_EQ(links_.looks_whole(element, Condition::of(yes)), std::nullopt);
  sink->done(false);
  EXPECT_EQ(links_.looks_whole(element, Condition::of(yes)), std::optional(true));
}

TEST_F(LinksTest, who_says_nothing_is_lost_in_time) {
  meet();
  EXPECT_EQ(state_of_other(), PeState::running);
  EXPECT_EQ(job_->pe(1).pid.load(), 99u);
  for (int second = 0; second < 4; ++second) {
    clock_.advance(std::chrono::seconds(1));
    links_.turn();
  }
  const Link& other = *links_.find(1).value();
  clock_.advance(std::chrono::seconds(1));
  links_.turn();
  const auto link = links_.find(1);
  EXPECT_EQ(link.code(), Code::peer_lost);
  EXPECT_EQ(link.status().message(), "PE 1 was silent for 5000 ms");
  EXPECT_EQ(state_of_other(), PeState::lost);
  EXPECT_TRUE(other.is_quiet(1)) << "nothing is waited for any more";
}

TEST_F(LinksTest, pe_that_has_finalized_is_not_missed_before_a_neighbour_may_be) {
  meet();
  say({.kind = FrameKind::bye, .operand = static_cast<std::uint64_t>(PeState::finalized)});
  EXPECT_EQ(links_.find(1).status().message(), "PE 1 has finalized");
  clock_.advance(std::chrono::seconds(4));
  links_.turn();
  EXPECT_EQ(state_of_other(), PeState::running) << "a neighbour may still bring its arrival";
  clock_.advance(std::chrono::seconds(1));
  links_.turn();
  EXPECT_EQ(state_of_other(), PeState::finalized);
}

TEST_F(LinksTest, what_is_put_later_does_not_keep_the_earlier_waiting) {
  meet();
  Link& link = *links_.find(1).value();
  ASSERT_TRUE(links_.send(link, {.kind = FrameKind::put}, as_bytes("first")).ok());
  const std::uint64_t first = link.posted;
  ASSERT_TRUE(links_.send(link, {.kind = FrameKind::put}, as_bytes("later")).ok());
  EXPECT_FALSE(link.is_quiet(first));
  say({.kind = FrameKind::applied, .operand = first});
  EXPECT_TRUE(link.is_quiet(first));
  EXPECT_FALSE(link.is_quiet(link.posted));
}

TEST_F(LinksTest, what_cannot_be_sent_is_reported_with_the_pe_and_ends_the_link) {
  meet();
  network_.refusal = error(Code::exhausted, "no memory was left for a message");
  Link* const link = links_.find(1).value();
  EXPECT_EQ(links_.send(*link, {.kind = FrameKind::beat}).message(),
            "PE 1: no memory was left for a message");
  EXPECT_EQ(links_.find(1).code(), Code::peer_lost) << "what was numbered did not leave";
}

TEST_F(LinksTest, frame_for_which_there_is_no_memory_ends_the_link) {
  meet();
  network_.has_no_memory = true;
  Link* const link = links_.find(1).value();
  EXPECT_EQ(links_.send(*link, {.kind = FrameKind::beat}).code(), Code::peer_lost);
  EXPECT_EQ(links_.find(1).code(), Code::peer_lost);
  EXPECT_EQ(state_of_other(), PeState::lost);
}

TEST_F(LinksTest, who_was_stopped_itself_does_not_blame_others) {
  meet();
  clock_.advance(std::chrono::minutes(1));
  links_.turn();
  EXPECT_TRUE(links_.find(1).ok());
}

TEST_F(LinksTest, words_are_changed_and_answered_by_every_operation) {
  meet();
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
  const std::vector<std::pair<FrameHeader, ConstByteSpan>> wrong = {
      {{.kind = FrameKind::put, .offset = kHeap - 8}, bytes},
      {{.kind = FrameKind::put, .offset = ~0ULL}, bytes},
      {{.kind = FrameKind::get, .aux = 16, .offset = kHeap - 8}, {}},
      {{.kind = FrameKind::get, .aux = 1 << 20}, {}},
      {{.kind = FrameKind::change, .word_bytes = 8, .offset = 4}, {}},
      {{.kind = FrameKind::change, .word_bytes = 8, .offset = kHeap}, {}},
      {{.kind = FrameKind::change, .word_bytes = 2}, {}},
      {{.kind = FrameKind::beat}, bytes},
      {{.kind = FrameKind::arrival}, {}},
  };
  for (const auto& [header, body] : wrong) {
    Links fresh(clock_, {});
    FakePe other(network_, 1);
    greet(fresh, other);
    other.meet(fresh);
    other.say(header, body);
    fresh.turn();
    EXPECT_EQ(fresh.find(1).code(), Code::corrupt) << static_cast<int>(header.kind);
  }
}

TEST_F(LinksTest, memory_that_cannot_be_written_is_named) {
  meet();
  std::uint64_t port = 0;
  std::memcpy(&port, links_.place().address.data(), sizeof port);
  const auto fault = [&](const Bytes& head, std::size_t bytes) {
    net::BodySink* const sink =
        network_.port(port).listener->on_message({.head = head, .body_bytes = bytes});
    ASSERT_NE(sink, nullptr);
    ByteSpan room;
    ASSERT_EQ(sink->room({&room, 1}), 1U);
    EXPECT_FALSE(sink->faulted());
    sink->done(true);
  };
  Bytes into(6);
  Question question{.into = into, .left = 6};
  const std::uint64_t ticket = links_.ask(question);
  fault(other_.sealed({.kind = FrameKind::data, .ticket = ticket}), 6);
  EXPECT_EQ(question.left, 0U);
  EXPECT_EQ(question.failed.code(), Code::out_of_range);
  EXPECT_TRUE(links_.find(1).ok());
  fault(other_.sealed({.kind = FrameKind::put}), 16);
  EXPECT_EQ(links_.find(1).status().message(), "PE 1 puts where this heap cannot be written");
}

TEST_F(LinksTest, answer_into_memory_that_cannot_be_written_is_named_and_ends_nothing) {
  meet();
  auto page = sys::Mapping::anonymous(sys::page_size());
  ASSERT_TRUE(page.ok());
  ASSERT_EQ(::mprotect(page->data(), page->size(), PROT_READ), 0);
  std::uint64_t port = 0;
  std::memcpy(&port, links_.place().address.data(), sizeof port);
  const auto is_refused = [&](const auto& answer) {
    Question question{.into = page->bytes().first(6), .left = 6};
    const std::uint64_t ticket = links_.ask(question);
    answer(FrameHeader{.kind = FrameKind::data, .ticket = ticket});
    links_.forget(ticket);
    EXPECT_EQ(question.left, 0U);
    EXPECT_TRUE(links_.find(1).ok());
    return question.failed.code() == Code::out_of_range;
  };
  EXPECT_TRUE(is_refused([&](const FrameHeader& data) { say(data, as_bytes("theirs")); }));
  // Before its turn: the first frame was the hello, the second the one above.
  EXPECT_TRUE(is_refused([&](FrameHeader data) {
    data.sequence = 4;
    say(data, as_bytes("theirs"));
    say({.kind = FrameKind::beat, .sequence = 3});
  }));
  // Of a stream that this process decrypts.
  EXPECT_TRUE(is_refused([&](FrameHeader data) {
    data.sequence = 5;
    const Bytes head = other_.sealed(data);
    net::BodySink* const sink =
        network_.port(port).listener->on_message({.head = head, .body_bytes = 6});
    ASSERT_NE(sink, nullptr);
    sink->comes_by_process();
    ByteSpan room;
    ASSERT_EQ(sink->room({&room, 1}), 1U);
    std::ranges::copy(as_bytes("the"), room.begin());
    sink->came(3);
    EXPECT_EQ(sink->room({&room, 1}), 0U) << "the rest is dropped";
    sink->done(true);
  }));
}

TEST_F(LinksTest, answer_that_the_kernel_puts_in_place_is_whole) {
  meet();
  Bytes into(6);
  Question question{.into = into, .left = 6};
  const std::uint64_t ticket = links_.ask(question);
  network_.body_step = 4;
  say({.kind = FrameKind::data, .ticket = ticket}, as_bytes("theirs"));
  EXPECT_EQ(as_text(into), "theirs");
  EXPECT_EQ(question.left, 0U);
  EXPECT_TRUE(question.failed.ok());
}

TEST_F(LinksTest, pe_that_asks_and_does_not_read_is_lost_by_name) {
  meet();
  std::memcpy(&network_.stalled, other_.place().address.data(), sizeof network_.stalled);
  for (int i = 0; i < 70'000; ++i) other_.say({.kind = FrameKind::get, .aux = 8, .ticket = 1});
  turn();
  EXPECT_EQ(links_.find(1).status().message(),
            "PE 1 asks and does not read: 65536 answers wait for it");
  EXPECT_EQ(state_of_other(), PeState::lost);
}

TEST_F(LinksTest, member_that_arrives_without_end_is_lost_by_name) {
  meet();
  const Bytes arrival = encode(ArrivalFrame{
      .news = {.member = 1, .members = 2, .round = 0, .call = {.kind = CallKind::barrier}}});
  for (int i = 0; i < 3000; ++i) other_.say({.kind = FrameKind::arrival}, {}, arrival);
  turn();
  EXPECT_EQ(links_.find(1).status().message(), "PE 1 is too many rounds ahead");
}

TEST_F(LinksTest, member_that_is_a_round_ahead_waits_for_the_round_to_end) {
  meet();
  Barrier& barrier = job_->team(0).barrier;
  const auto arrival = [](std::uint32_t round) {
    return encode(ArrivalFrame{.news = {.member = 1,
                                        .members = 2,
                                        .round = round,
                                        .call = {.kind = CallKind::barrier},
                                        .note = 40 + round}});
  };
  say({.kind = FrameKind::arrival}, {}, arrival(0));
  say({.kind = FrameKind::arrival}, {}, arrival(1));
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
