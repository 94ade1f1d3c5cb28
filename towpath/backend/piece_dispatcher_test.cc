#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backend/piece_memory.h>
#include <towpath/backend/testing/recording_events.h>
#include <towpath/backend/testing/toy_pieces.h>

namespace towpath::backend {
namespace {

using testing::fails_at;
using ::testing::HasSubstr;
using testing::ToyDispatcher;
using testing::ToyEngine;
using testing::ToyOperation;

constexpr std::uint64_t kPiece = ToyDispatcher::kPieceBytes;
constexpr std::int32_t kBadAnswer = -5;

class PieceDispatcherTest : public ::testing::Test {
 protected:
  PieceDispatcherTest() { make(2); }
  void make(std::size_t depth) {
    operation.reset();
    dispatcher = std::make_unique<ToyDispatcher>(engine, events, counters, depth);
    operation = dispatcher->make_operation();
    for (std::size_t i = 0; i < there.size(); ++i) there[i] = static_cast<std::byte>(i * 7 + 1);
  }
  Segment segment(std::uint64_t at, std::uint64_t length) {
    return {&local, &remote, address_of(here.data()) + at, address_of(there.data()) + at, length};
  }
  Segment row(std::uint64_t length, std::uint64_t count) {
    Segment made = segment(0, length);
    made.count = count;
    made.local_stride = made.remote_stride = length;
    return made;
  }
  void read(PieceOperation& by, std::vector<Segment> list) {
    segments.push_back(std::move(list));
    by.post({TransferOp::read, &connection, segments.back()});
  }
  void read(std::vector<Segment> list) { read(*operation, std::move(list)); }
  void progress(int times = 10) {
    for (int i = 0; i < times; ++i) dispatcher->progress();
  }
  const testing::RecordedCompletion& outcome() { return events.last(*operation); }
  bool in_place(std::uint64_t at, std::uint64_t length) {
    return std::memcmp(here.data() + at, there.data() + at, length) == 0;
  }

  Connection connection;
  ToyEngine engine;
  testing::RecordingEvents events;
  PieceCounters counters{nullptr, {.backend = "toy", .agent = "a", .paths = {}}};
  PieceMemory local{MemoryKind::system, nullptr};
  PieceMemory remote{MemoryKind::system, nullptr};
  std::vector<std::byte> here = std::vector<std::byte>(16 * kPiece);
  std::vector<std::byte> there = std::vector<std::byte>(16 * kPiece);
  std::deque<std::vector<Segment>> segments;
  std::unique_ptr<ToyDispatcher> dispatcher;
  std::unique_ptr<ToyOperation> operation;
};

TEST_F(PieceDispatcherTest, no_more_pieces_than_flights_are_in_the_engine) {
  read({segment(0, 5 * kPiece)});
  std::size_t ended = 0;
  while (events.count(*operation) == 0) {
    ASSERT_EQ(engine.waiting.size(), std::min<std::size_t>(2, 5 - ended));
    engine.end(0);
    ++ended;
    dispatcher->progress();
  }
  EXPECT_EQ(outcome().bytes, 5 * kPiece);
  EXPECT_TRUE(in_place(0, 5 * kPiece));
}

TEST_F(PieceDispatcherTest, a_batch_is_one_flush) {
  read({segment(0, 2 * kPiece)});
  EXPECT_EQ(engine.flushes, 1U);
  EXPECT_EQ(counters.batches.value(), 1U);
  engine.end(1);
  engine.end(0);
  progress();
  EXPECT_TRUE(outcome().status.ok());
}

TEST_F(PieceDispatcherTest, a_request_without_bytes_is_done_at_once) {
  read({segment(0, 0)});
  EXPECT_TRUE(outcome().status.ok());
  read({});
  EXPECT_EQ(events.count(*operation), 2U);
  EXPECT_EQ(engine.flushes, 0U);
}

TEST_F(PieceDispatcherTest, operations_take_turns) {
  make(1);
  const auto small = dispatcher->make_operation();
  read({segment(0, 5 * kPiece)});
  read(*small, {segment(8 * kPiece, kPiece)});
  engine.automatic = true;
  progress(3);
  EXPECT_EQ(events.count(*small), 1U);
  EXPECT_EQ(events.count(*operation), 0U);
  progress();
  EXPECT_EQ(events.count(*operation), 1U);
}

// ---- Answers

TEST_F(PieceDispatcherTest, an_id_that_came_back_counts_once) {
  read({segment(0, 2 * kPiece)});
  const std::uint64_t first = engine.waiting[0].id;
  engine.end(0);
  engine.done.push_back({first, 0});
  engine.done.push_back({UINT64_MAX, 0});
  progress();
  EXPECT_EQ(events.count(*operation), 0U);
  EXPECT_EQ(counters.strays.value(), 2U);
  engine.end(0);
  progress();
  EXPECT_EQ(outcome().bytes, 2 * kPiece);
}

TEST_F(PieceDispatcherTest, a_late_id_does_not_end_the_piece_that_has_its_place_now) {
  make(1);
  read({segment(0, 2 * kPiece)});
  const std::uint64_t first = engine.waiting[0].id;
  engine.end(0);
  dispatcher->progress();
  engine.done.push_back({first, 0});
  dispatcher->progress();
  EXPECT_EQ(events.count(*operation), 0U);
  EXPECT_EQ(counters.strays.value(), 1U);
  engine.end(0);
  progress();
  EXPECT_TRUE(in_place(0, 2 * kPiece));
}

TEST_F(PieceDispatcherTest, the_extent_that_fails_is_found_and_the_others_are_spared) {
  read({row(1024, 4)});
  engine.answer(0, kBadAnswer);
  dispatcher->progress();  // now one by one
  engine.end(0);
  dispatcher->progress();
  engine.answer(0, kBadAnswer);
  engine.automatic = true;
  progress();
  EXPECT_EQ(outcome().status.code(), Code::io_error);
  ASSERT_EQ(outcome().failures.size(), 1U);
  EXPECT_EQ(outcome().failures[0].extent, 1U);
  EXPECT_EQ(outcome().bytes, 3 * 1024U);
  EXPECT_EQ(counters.isolations.value(), 1U);
}

TEST_F(PieceDispatcherTest, what_stands_or_falls_together_is_isolated_together) {
  dispatcher->unit = 2048;
  read({row(1024, 4)});
  engine.answer(0, kBadAnswer);
  dispatcher->progress();
  EXPECT_EQ(engine.waiting[0].bytes, 2048U);
  engine.answer(0, kBadAnswer);
  engine.automatic = true;
  progress();
  EXPECT_EQ(outcome().failures.size(), 2U);
  EXPECT_EQ(outcome().bytes, 2048U);
}

TEST_F(PieceDispatcherTest, retries_end_and_the_next_extent_has_its_own) {
  read({row(1024, 2)});
  engine.answer(0, kBadAnswer);
  dispatcher->progress();
  for (std::uint32_t i = 0; i <= ToyDispatcher::kMaxRetries; ++i) {
    ASSERT_EQ(engine.waiting.size(), 1U) << "after " << i << " tries";
    engine.answer(0, ToyDispatcher::kAgain);
    dispatcher->progress();
  }
  engine.answer(0, ToyDispatcher::kAgain);  // of the second extent
  dispatcher->progress();
  ASSERT_EQ(engine.waiting.size(), 1U) << "the second extent was not tried again";
  engine.end(0);
  progress();
  EXPECT_EQ(counters.retries.value(), ToyDispatcher::kMaxRetries + 1);
  EXPECT_EQ(outcome().failures.size(), 1U);
  EXPECT_EQ(outcome().bytes, 1024U);
}

TEST_F(PieceDispatcherTest, what_cannot_be_handed_in_fails_and_holds_nothing_up) {
  dispatcher->refusal = error(Code::unsupported, "no such piece");
  read({segment(0, 5 * kPiece)});
  progress();
  EXPECT_EQ(outcome().status.code(), Code::unsupported);
  EXPECT_EQ(outcome().bytes, 0U);
  EXPECT_EQ(dispatcher->in_flight(), 0U);
}

TEST_F(PieceDispatcherTest, what_is_refused_beforehand_names_its_segment) {
  std::vector<Segment> list{segment(0, 10), segment(0, 2U << 20U)};
  list[1].local = &remote;
  read(list);
  EXPECT_EQ(outcome().status.code(), Code::unsupported);
  EXPECT_THAT(outcome().status.message(), HasSubstr("segment 1"));
  list[1].local = nullptr;
  read(list);
  EXPECT_EQ(outcome().status.code(), Code::invalid_argument);
  EXPECT_TRUE(engine.waiting.empty());
}

TEST_F(PieceDispatcherTest, what_is_tried_again_inside_of_a_post_is_started_there) {
  const auto second = dispatcher->make_operation();
  read({segment(0, kPiece)});
  engine.answer(0, ToyDispatcher::kAgain);
  read(*second, {segment(kPiece, kPiece)});
  EXPECT_EQ(engine.flushes, 3U);
  engine.automatic = true;
  progress();
}

// ---- Lingering

class LingeringPiecesTest : public PieceDispatcherTest {
 protected:
  LingeringPiecesTest() {
    make(8);
    dispatcher->can_linger = true;
    for (auto& one : several) one = dispatcher->make_operation();
  }
  /// Each posts one piece.
  void read_each(std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) read(*several[i], {segment(i * kPiece, kPiece)});
  }
  void end_all() {
    engine.automatic = true;
    progress();
    engine.automatic = false;
  }
  std::array<std::unique_ptr<ToyOperation>, 4> several;
};

TEST_F(LingeringPiecesTest, the_first_starts_at_once_and_those_after_it_share_a_flush) {
  progress(3);
  read_each(0, 1);
  EXPECT_EQ(engine.flushes, 1U);
  EXPECT_FALSE(engine.raised);
  read_each(1, 4);
  EXPECT_EQ(engine.flushes, 1U);
  EXPECT_TRUE(engine.raised) << "nobody would know that there is something to do";
  EXPECT_EQ(engine.raises, 1U);
  const std::size_t clears = engine.clears;
  EXPECT_FALSE(dispatcher->progress()) << "nothing but to wait for them";
  EXPECT_EQ(engine.flushes, 2U);
  EXPECT_FALSE(engine.raised);
  EXPECT_EQ(engine.clears, clears + 1);
  end_all();
  EXPECT_TRUE(in_place(0, 4 * kPiece));
  for (const auto& one : several) EXPECT_EQ(events.count(*one), 1U);
  read_each(0, 1);
  EXPECT_EQ(engine.flushes, 3U) << "the next progress() begins anew";
  end_all();
}

TEST_F(LingeringPiecesTest, what_has_ended_has_raised_for_those_that_linger_after_it) {
  progress(1);
  read_each(0, 1);
  engine.end(0);
  EXPECT_TRUE(dispatcher->progress());
  read_each(1, 3);
  EXPECT_EQ(engine.flushes, 2U) << "of the two one lingers";
  EXPECT_FALSE(engine.raised) << "it is readable until it is cleared";
  const std::size_t clears = engine.clears;
  EXPECT_FALSE(dispatcher->progress());
  EXPECT_EQ(engine.clears, clears + 1);
  EXPECT_FALSE(dispatcher->progress());
  EXPECT_EQ(engine.clears, clears + 1) << "that it is silent is known";
  read_each(0, 1);
  read_each(3, 4);
  EXPECT_TRUE(engine.raised) << "nothing has ended since it was cleared";
  end_all();
}

TEST_F(LingeringPiecesTest, what_ends_around_a_clear_has_raised_for_nobody) {
  read_each(0, 1);
  engine.on_clear = [&] { engine.end(0); };
  EXPECT_TRUE(dispatcher->progress());
  engine.on_clear = nullptr;
  read_each(1, 3);
  EXPECT_TRUE(engine.raised) << "it may have been notified of before the clear";
  end_all();
}

TEST_F(LingeringPiecesTest, what_ends_as_it_is_started_is_found_without_a_clear) {
  read_each(0, 2);
  const std::size_t clears = engine.clears;
  engine.on_flush = [&] { engine.end(1); };
  EXPECT_TRUE(dispatcher->progress());
  engine.on_flush = nullptr;
  EXPECT_EQ(events.count(*several[1]), 1U);
  EXPECT_EQ(engine.clears, clears);
  end_all();
}

TEST_F(LingeringPiecesTest, what_cannot_linger_takes_along_what_does) {
  read_each(0, 2);
  EXPECT_EQ(engine.flushes, 1U);
  dispatcher->can_linger = false;
  read_each(2, 4);
  EXPECT_EQ(engine.flushes, 3U);
  end_all();
  dispatcher->can_linger = true;
  read_each(0, 2);
  EXPECT_EQ(engine.flushes, 4U) << "that is over with them";
  end_all();
}

TEST_F(LingeringPiecesTest, many_bytes_do_not_linger) {
  make(128);
  dispatcher->can_linger = true;
  for (auto& one : several) one = dispatcher->make_operation();
  there.resize(64 * kPiece);
  here.resize(64 * kPiece);
  read_each(0, 2);
  ASSERT_EQ(engine.flushes, 1U);
  read(*several[2], {segment(0, 64 * kPiece)});
  EXPECT_EQ(engine.flushes, 2U);
  end_all();
  read_each(0, 2);
  EXPECT_EQ(engine.flushes, 3U) << "they are counted anew";
  end_all();
}

TEST_F(LingeringPiecesTest, nothing_lingers_that_nobody_would_be_reported_of) {
  engine.can_raise = false;
  read_each(0, 4);
  EXPECT_EQ(engine.flushes, 4U);
  end_all();
}

TEST_F(LingeringPiecesTest, what_lingers_can_be_cancelled) {
  read_each(0, 2);
  several[1]->cancel();
  EXPECT_EQ(engine.cancelled.size(), 1U);
  EXPECT_EQ(events.count(*several[1]), 0U) << "it is in the engine";
  engine.answer(1, kBadAnswer);
  progress();
  EXPECT_EQ(events.last(*several[1]).status.code(), Code::cancelled);
  end_all();
}

// ---- Cancelling

TEST_F(PieceDispatcherTest, a_cancelled_operation_ends_when_the_engine_has_let_go) {
  read({segment(0, 5 * kPiece)});
  operation->cancel();
  operation->cancel();
  EXPECT_EQ(engine.cancelled.size(), 2U);
  engine.end(0);
  progress();
  EXPECT_EQ(events.count(*operation), 0U) << "not quiesced yet";
  engine.answer(0, kBadAnswer);
  progress();
  EXPECT_EQ(outcome().status.code(), Code::cancelled);
  EXPECT_EQ(outcome().bytes, kPiece);
  EXPECT_TRUE(engine.waiting.empty());
}

TEST_F(PieceDispatcherTest, one_that_waits_for_its_turn_is_cancelled_at_once) {
  make(1);
  const auto second = dispatcher->make_operation();
  read({segment(0, 5 * kPiece)});
  read(*second, {segment(8 * kPiece, kPiece)});
  second->cancel();
  ASSERT_EQ(events.count(*second), 1U);
  EXPECT_EQ(events.last(*second).status.code(), Code::cancelled);
  operation->cancel();
  engine.automatic = true;
  progress();
}

// ---- What events do

TEST_F(PieceDispatcherTest, an_operation_can_be_posted_again_from_its_completion) {
  engine.automatic = true;
  int again = 3;
  events.after_complete = [&](Operation&) {
    if (again-- > 0) read({segment(0, kPiece)});
  };
  read({segment(0, kPiece)});
  progress(20);
  EXPECT_EQ(events.count(*operation), 4U);
}

TEST_F(PieceDispatcherTest, an_operation_can_be_destroyed_in_its_completion) {
  events.after_complete = [&](Operation&) { operation.reset(); };
  read({segment(0, kPiece)});
  engine.end(0);
  dispatcher->progress();
  EXPECT_EQ(operation, nullptr);
}

// ---- Without memory

TEST_F(PieceDispatcherTest, a_piece_that_is_handed_in_or_settled_without_memory_has_failed) {
  dispatcher->on_hand_in = fails_at(1);
  dispatcher->on_settle = fails_at(2);
  read({segment(0, 4 * kPiece)});
  engine.automatic = true;
  progress();
  ASSERT_EQ(events.count(*operation), 1U);
  EXPECT_EQ(outcome().status.code(), Code::exhausted);
  EXPECT_EQ(outcome().bytes, 2 * kPiece);
  ASSERT_EQ(outcome().failures.size(), 1U);
  EXPECT_EQ(outcome().failures[0].bytes, kPiece) << "the second and the fourth are missing";
}

TEST_F(PieceDispatcherTest, what_cannot_be_cut_without_memory_fails_when_its_pieces_are_back) {
  dispatcher->on_take = fails_at(2);
  read({segment(0, 5 * kPiece)});
  engine.end(0);
  dispatcher->progress();
  EXPECT_EQ(events.count(*operation), 0U) << "a piece is in the engine";
  engine.end(0);
  progress();
  ASSERT_EQ(events.count(*operation), 1U);
  EXPECT_EQ(outcome().status.code(), Code::exhausted);
  EXPECT_EQ(outcome().bytes, 2 * kPiece);
  read({segment(0, kPiece)});
  engine.end(0);
  progress();
  EXPECT_TRUE(outcome().status.ok()) << "the next one is another";
}

TEST_F(PieceDispatcherTest, an_event_without_memory_holds_up_nothing) {
  const auto second = dispatcher->make_operation();
  read({segment(0, kPiece)});
  read(*second, {segment(kPiece, kPiece)});
  events.after_complete = [fails = fails_at(0)](Operation&) { fails(); };
  engine.end(0);
  engine.end(0);
  progress();
  EXPECT_EQ(events.count(*operation), 1U);
  EXPECT_EQ(events.count(*second), 1U) << "it came back with the first";
  events.after_complete = [fails = fails_at(0)](Operation&) { fails(); };
  dispatcher->refusal = error(Code::unsupported, "no such piece");
  EXPECT_THROW(read({segment(0, kPiece)}), std::bad_alloc);
  dispatcher->refusal = {};
  read({segment(0, kPiece)});
  ASSERT_EQ(engine.waiting.size(), 1U) << "nothing is started any more";
  engine.end(0);
  progress();
  EXPECT_TRUE(outcome().status.ok());
}

// ---- The engine's moods

TEST_F(PieceDispatcherTest, a_refused_flush_is_repeated) {
  engine.flush_fails = true;
  read({segment(0, kPiece)});
  EXPECT_TRUE(dispatcher->progress());
  engine.flush_fails = false;
  dispatcher->progress();
  const std::size_t flushes = engine.flushes;
  dispatcher->progress();
  EXPECT_EQ(engine.flushes, flushes);
  engine.end(0);
  progress();
}

TEST_F(PieceDispatcherTest, an_idle_one_clears_its_wake_up_and_says_so) {
  EXPECT_FALSE(dispatcher->progress());
  EXPECT_EQ(engine.clears, 1U);
  for (int i = 0; i < 32; ++i) EXPECT_FALSE(dispatcher->progress());
  EXPECT_EQ(engine.clears, 3U);
}

TEST_F(PieceDispatcherTest, what_is_found_behind_a_clear_is_cleared_next) {
  read({segment(0, kPiece)});
  engine.on_clear = [&] { engine.end(0); };
  EXPECT_TRUE(dispatcher->progress());
  engine.on_clear = nullptr;
  EXPECT_FALSE(dispatcher->progress());
  EXPECT_EQ(engine.clears, 2U) << "who sleeps would be woken for nothing";
}

TEST_F(PieceDispatcherTest, memory_is_touched_while_a_piece_of_it_is_under_way) {
  PieceMemory other(MemoryKind::system, dispatcher.get());
  std::vector<Segment> list{segment(0, 100), segment(200, 100)};
  list[1].local = &other;
  read(list);
  EXPECT_TRUE(dispatcher->touches(local));
  EXPECT_TRUE(dispatcher->touches(other));
  engine.end(1);
  dispatcher->progress();
  EXPECT_FALSE(dispatcher->touches(other));
  engine.end(0);
  progress();
}

}  // namespace
}  // namespace towpath::backend
