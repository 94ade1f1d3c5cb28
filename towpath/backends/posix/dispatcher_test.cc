#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/posix/dispatcher.h>
#include <towpath/backends/posix/scripted_engine.h>

namespace towpath::backends::posix {
namespace {

using backend::Request;
using backend::Segment;
using ::testing::HasSubstr;

class DispatcherTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSize = 64U << 10U;

  DispatcherTest() { use_disk(1); }
  void use_disk(std::uint64_t alignment, bool has_twin = true) {
    disk = make_disk(kSize, alignment, has_twin);
    file_bytes.resize(kSize);
    for (std::size_t i = 0; i < kSize; ++i) file_bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
    ASSERT_EQ(::pwrite(fd(), file_bytes.data(), kSize, 0), static_cast<ssize_t>(kSize));
    make_dispatcher({});
  }
  void make_dispatcher(Dispatcher::Options options) {
    dispatcher = std::make_unique<Dispatcher>(options, engine, events, counters);
    ASSERT_TRUE(dispatcher->prepare_bounce().ok());
    operation = dispatcher->make_operation();
  }
  int fd() const { return disk->file().engine_file(Path::direct).fd; }

  Segment segment(std::uint64_t at, std::uint64_t offset, std::uint64_t length) {
    return {local.get(), disk.get(), address_of(memory.data()) + at, offset, length};
  }
  void read(std::vector<Segment> list) { post(TransferOp::read, std::move(list)); }
  void write(std::vector<Segment> list) { post(TransferOp::write, std::move(list)); }
  void post(TransferOp op, std::vector<Segment> list) {
    segments = std::move(list);
    operation->post({op, &connection, segments});
  }
  void run() {
    for (int i = 0; i < 100'000 && events.count(*operation) == 0; ++i) dispatcher->progress();
    ASSERT_EQ(events.count(*operation), 1U);
  }
  const backend::testing::RecordedCompletion& outcome() { return events.last(*operation); }
  bool is_in_place(std::uint64_t at, std::uint64_t offset, std::uint64_t length) {
    return std::memcmp(memory.data() + at, file_bytes.data() + offset, length) == 0;
  }

  backend::Connection connection;
  ScriptedEngine engine;
  backend::testing::RecordingEvents events;
  std::unique_ptr<DiskMemory> disk;
  std::unique_ptr<LocalMemory> local = make_local();
  Counters counters;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<PosixOperation> operation;
  std::vector<Segment> segments;
  std::vector<std::byte> file_bytes;
  // Aligned as O_DIRECT wants it.
  sys::Mapping mapping = std::move(*sys::Mapping::anonymous(2 * kSize));
  ByteSpan memory = mapping.bytes();
};

TEST_F(DispatcherTest, nothing_is_done_before_the_engine_says_so) {
  read({segment(0, 100, 5000)});
  EXPECT_EQ(engine.flushes, 1U);
  dispatcher->progress();
  EXPECT_EQ(events.count(*operation), 0U);
  engine.end(0);
  run();
  EXPECT_TRUE(outcome().status.ok());
  EXPECT_EQ(outcome().bytes, 5000U);
  EXPECT_TRUE(is_in_place(0, 100, 5000));
}

TEST_F(DispatcherTest, writes_through_the_page_cache_share_a_flush_and_nothing_else_does) {
  const auto flushes_of_two = [&](TransferOp op) {
    const auto second = dispatcher->make_operation();
    const std::vector<Segment> list{segment(4096, 4096, 4096)};
    engine.flushes = 0;
    post(op, {segment(0, 0, 4096)});
    second->post({op, &connection, list});
    const std::size_t flushes = engine.flushes;
    engine.automatic = true;
    run();
    engine.automatic = false;
    events.completions.clear();
    return flushes;
  };
  EXPECT_EQ(flushes_of_two(TransferOp::write), 1U);
  EXPECT_EQ(flushes_of_two(TransferOp::read), 2U);
  use_disk(4096);
  EXPECT_EQ(flushes_of_two(TransferOp::write), 2U);
}

TEST_F(DispatcherTest, a_read_of_what_the_page_cache_has_needs_no_engine) {
  engine.cached_answer = INT32_MAX;
  read({segment(0, 100, 5000)});
  EXPECT_TRUE(outcome().status.ok());
  EXPECT_EQ(outcome().bytes, 5000U);
  EXPECT_TRUE(is_in_place(0, 100, 5000));
  EXPECT_EQ(engine.flushes, 0U);
  EXPECT_EQ(counters.cached_reads.value(), 1U);
  EXPECT_EQ(counters.submissions.value(), 0U);
  EXPECT_EQ(counters.moved(false, Path::buffered).value(), 5000U);
}

TEST_F(DispatcherTest, what_the_page_cache_has_only_in_part_comes_through_the_engine) {
  engine.cached_answer = 700;
  read({segment(0, 100, 5000)});
  EXPECT_EQ(events.count(*operation), 0U);
  engine.automatic = true;
  run();
  EXPECT_EQ(outcome().bytes, 5000U);
  EXPECT_TRUE(is_in_place(0, 100, 5000));
  EXPECT_EQ(counters.cached_reads.value(), 0U);
  EXPECT_EQ(counters.moved(false, Path::buffered).value(), 5000U);
}

TEST_F(DispatcherTest, only_a_read_that_is_all_of_its_transfer_asks_the_page_cache) {
  const auto run_once = [&] {
    run();
    events.completions.clear();
    EXPECT_EQ(engine.cached_asked, 0U);
  };
  engine.automatic = true;
  read({segment(0, 0, 100), segment(200, 300, 100)});
  run_once();
  write({segment(0, 0, 100)});
  run_once();
  make_dispatcher({.buffers_for_page_cache = true});
  read({segment(0, 0, 100)});
  run_once();
  use_disk(4096);
  read({segment(0, 0, 4096)});
  run_once();
}

TEST_F(DispatcherTest, a_file_system_that_cannot_report_what_is_cached_is_asked_once) {
  engine.cached_answer = -EOPNOTSUPP;
  engine.automatic = true;
  read({segment(0, 0, 100)});
  run();
  events.completions.clear();
  read({segment(0, 0, 100)});
  run();
  EXPECT_TRUE(outcome().status.ok());
  EXPECT_EQ(engine.cached_asked, 1U);
}

// 1 MiB in one progress(), as through the engine; the next goes on.
TEST_F(DispatcherTest, reads_of_the_page_cache_take_turns_with_their_caller) {
  make_dispatcher({.depth = 1});
  read({segment(0, 0, kSize)});  // takes the only place
  engine.cached_answer = INT32_MAX;
  std::vector<std::unique_ptr<PosixOperation>> others(20);
  for (auto& other : others) {
    other = dispatcher->make_operation();
    other->post({TransferOp::read, &connection, segments});
  }
  const auto ended = [&] {
    return std::ranges::count_if(others, [&](const auto& other) { return events.count(*other); });
  };
  EXPECT_EQ(ended(), 0);
  engine.end(0);
  EXPECT_TRUE(dispatcher->progress());
  EXPECT_EQ(ended(), 16);
  EXPECT_TRUE(dispatcher->progress());
  EXPECT_EQ(ended(), 20);
}

TEST_F(DispatcherTest, an_empty_request_completes_in_post) {
  read({segment(0, 0, 0)});
  EXPECT_TRUE(outcome().status.ok());
  EXPECT_EQ(engine.flushes, 0U);
}

TEST_F(DispatcherTest, short_ios_go_on_to_the_exact_end) {
  engine.automatic = true;
  engine.at_most = 700;
  read({segment(0, 3, 5000), segment(6000, 5003, 100)});
  run();
  EXPECT_TRUE(outcome().status.ok());
  EXPECT_EQ(outcome().bytes, 5100U);
  EXPECT_TRUE(is_in_place(0, 3, 5000));
  EXPECT_TRUE(is_in_place(6000, 5003, 100));
  EXPECT_EQ(dispatcher->counters().short_continuations.value(), 7U);
}

TEST_F(DispatcherTest, depth_bounds_what_is_in_the_engine) {
  make_dispatcher({.depth = 3, .limits = {.chunk_bytes = 4096}});
  engine.automatic = true;
  read({segment(0, 0, kSize)});
  run();
  EXPECT_EQ(engine.most_waiting, 3U);
  EXPECT_TRUE(is_in_place(0, 0, kSize));
}

TEST_F(DispatcherTest, a_batch_costs_one_flush) {
  make_dispatcher({.depth = 16, .limits = {.chunk_bytes = 4096}});
  read({segment(0, 0, kSize)});
  EXPECT_EQ(engine.waiting.size(), 16U);
  EXPECT_EQ(engine.flushes, 1U);
  engine.automatic = true;
  run();
}

TEST_F(DispatcherTest, completions_in_any_order_are_matched_by_id) {
  make_dispatcher({.depth = 16, .limits = {.chunk_bytes = 4096}});
  read({segment(0, 0, kSize)});
  while (!engine.waiting.empty()) engine.end(engine.waiting.size() / 2);
  run();
  EXPECT_TRUE(outcome().status.ok());
  EXPECT_TRUE(is_in_place(0, 0, kSize));
}

TEST_F(DispatcherTest, an_error_names_its_extent_and_spares_the_others) {
  Segment dense = segment(0, 0, 100);
  dense.count = 50;
  dense.local_stride = dense.remote_stride = 100;
  engine.automatic = true;
  engine.bad_from = 1250;
  engine.bad_to = 1251;
  read({dense});
  run();
  EXPECT_EQ(outcome().status.code(), Code::io_error);
  EXPECT_EQ(outcome().bytes, 4900U);
  ASSERT_EQ(outcome().failures.size(), 1U);
  EXPECT_EQ(outcome().failures[0].extent, 12U);
  EXPECT_EQ(outcome().failures[0].bytes, 0U);
  EXPECT_THAT(outcome().failures[0].status.to_string(), HasSubstr("offset 1200 of 'scripted'"));
  EXPECT_TRUE(is_in_place(0, 0, 1200));
  EXPECT_TRUE(is_in_place(1300, 1300, 3700));
}

TEST_F(DispatcherTest, no_space_is_reported_for_what_did_not_fit) {
  make_dispatcher({.depth = 2, .limits = {.chunk_bytes = 4096}});
  engine.automatic = true;
  engine.bad_from = 10'000;
  engine.bad_to = UINT64_MAX;
  engine.bad_errno = ENOSPC;
  write({segment(0, 0, 6000), segment(6000, 6000, 6000), segment(20'000, 40'000, 10)});
  run();
  EXPECT_EQ(outcome().status.code(), Code::exhausted);
  ASSERT_EQ(outcome().failures.size(), 2U);
  EXPECT_EQ(outcome().failures[0].segment, 1U);
  EXPECT_EQ(outcome().failures[0].bytes, 2192U);  // up to the end of the chunk that went through
  EXPECT_EQ(outcome().failures[1].segment, 2U);
  EXPECT_EQ(outcome().bytes, 8192U);
}

TEST_F(DispatcherTest, interruptions_are_tried_again_but_not_for_ever) {
  read({segment(0, 0, 4096)});
  engine.answer(0, -EINTR);
  dispatcher->progress();
  engine.answer(0, -EAGAIN);
  dispatcher->progress();
  engine.end(0);
  run();
  EXPECT_TRUE(outcome().status.ok());
  EXPECT_EQ(dispatcher->counters().retries.value(), 2U);

  events.completions.clear();
  engine.automatic = true;
  engine.bad_to = UINT64_MAX;
  engine.bad_errno = EAGAIN;
  read({segment(0, 0, 4096)});
  run();
  EXPECT_EQ(outcome().status.code(), Code::io_error);
}

TEST_F(DispatcherTest, a_cancellation_that_nobody_asked_for_is_tried_again) {
  read({segment(0, 0, 4096)});
  engine.answer(0, -ECANCELED);
  dispatcher->progress();
  engine.end(0);
  run();
  EXPECT_TRUE(outcome().status.ok());
}

TEST_F(DispatcherTest, reading_behind_the_end_names_offset_and_size) {
  engine.automatic = true;
  read({segment(0, kSize - 100, 200), segment(500, 0, 10)});
  run();
  EXPECT_EQ(outcome().status.code(), Code::out_of_range);
  ASSERT_EQ(outcome().failures.size(), 1U);
  EXPECT_EQ(outcome().failures[0].bytes, 100U);
  EXPECT_THAT(outcome().failures[0].status.message(),
              ::testing::AllOf(HasSubstr("offset 65536"), HasSubstr("ends at 65536")));
  EXPECT_EQ(outcome().bytes, 110U);
}

TEST_F(DispatcherTest, a_file_cut_under_way_is_out_of_range) {
  make_dispatcher({.depth = 1, .limits = {.chunk_bytes = 4096}});
  read({segment(0, 0, 8192)});
  engine.end(0);
  ASSERT_EQ(::ftruncate(fd(), 5000), 0);
  engine.automatic = true;
  run();
  EXPECT_EQ(outcome().status.code(), Code::out_of_range);
  EXPECT_EQ(outcome().bytes, 5000U);
}

TEST_F(DispatcherTest, zero_bytes_before_the_end_or_of_a_write_are_an_error) {
  engine.automatic = true;
  engine.bad_to = UINT64_MAX;
  engine.bad_errno = 0;
  read({segment(0, 0, 4096)});
  run();
  EXPECT_EQ(outcome().status.code(), Code::io_error);
  events.completions.clear();
  write({segment(0, 0, 4096)});
  run();
  EXPECT_EQ(outcome().status.code(), Code::io_error);
  EXPECT_EQ(outcome().bytes, 0U);
}

TEST_F(DispatcherTest, more_bytes_than_asked_are_believed_by_nobody) {
  read({segment(0, 0, 4096)});
  engine.answer(0, 4097);
  run();
  EXPECT_EQ(outcome().status.code(), Code::internal);
  EXPECT_EQ(outcome().bytes, 0U);
}

TEST_F(DispatcherTest, cancel_stops_submitting_and_waits_for_what_is_in_flight) {
  make_dispatcher({.depth = 2, .limits = {.chunk_bytes = 4096}});
  read({segment(0, 0, kSize)});
  operation->cancel();
  operation->cancel();
  EXPECT_EQ(engine.cancelled.size(), 2U);
  for (int i = 0; i < 20; ++i) dispatcher->progress();
  EXPECT_EQ(events.count(*operation), 0U) << "not quiesced yet";
  EXPECT_EQ(engine.waiting.size(), 2U);
  engine.end(0);
  dispatcher->progress();
  EXPECT_EQ(events.count(*operation), 0U);
  engine.answer(0, -ECANCELED);
  run();
  EXPECT_EQ(outcome().status.code(), Code::cancelled);
  EXPECT_EQ(outcome().bytes, 4096U);
  EXPECT_EQ(dispatcher->in_flight(), 0U);
}

TEST_F(DispatcherTest, a_short_io_of_a_cancelled_operation_does_not_go_on) {
  read({segment(0, 0, 4096)});
  operation->cancel();
  engine.end(0, 100);
  run();
  EXPECT_EQ(outcome().status.code(), Code::cancelled);
  EXPECT_EQ(outcome().bytes, 100U);
}

TEST_F(DispatcherTest, what_completes_before_the_cancel_wins) {
  read({segment(0, 0, 4096)});
  operation->cancel();
  engine.end(0);
  run();
  EXPECT_TRUE(outcome().status.ok());
  operation->cancel();
  EXPECT_EQ(events.count(*operation), 1U);
}

TEST_F(DispatcherTest, wrong_memories_are_refused_before_anything_moves) {
  std::vector<Segment> list{segment(0, 0, 10), segment(0, 0, 10)};
  list[1].remote = local.get();
  read(list);
  EXPECT_EQ(outcome().status.code(), Code::unsupported);
  EXPECT_THAT(outcome().status.message(), HasSubstr("segment 1"));
  list[1].remote = nullptr;
  read(list);
  EXPECT_EQ(outcome().status.code(), Code::invalid_argument);
  EXPECT_TRUE(engine.waiting.empty());
}

TEST_F(DispatcherTest, an_import_of_a_dropped_registration_is_refused) {
  auto record = std::make_shared<DiskRecord>(disk->record());
  DiskMemory import(nullptr, record, DiskMemory::Role::import);
  { DiskMemory registration(nullptr, record, DiskMemory::Role::registration); }
  std::vector<Segment> list{segment(0, 0, 10)};
  list[0].remote = &import;
  read(list);
  EXPECT_EQ(outcome().status.code(), Code::not_found);
}

// ---- O_DIRECT

TEST_F(DispatcherTest, unaligned_direct_reads_bounce_and_are_counted) {
  use_disk(512);
  engine.automatic = true;
  read({segment(100, 612, 1500), segment(9001, 5000, 3000)});
  run();
  EXPECT_TRUE(outcome().status.ok()) << outcome().status.to_string();
  EXPECT_TRUE(is_in_place(100, 612, 1500));
  EXPECT_TRUE(is_in_place(9001, 5000, 3000));
  EXPECT_EQ(dispatcher->counters().moved(false, Path::direct).value(), 1024U);
  EXPECT_EQ(dispatcher->counters().moved(false, Path::bounce).value(), 3476U);
  EXPECT_GT(dispatcher->counters().bounce_bytes.value(), 3476U);
}

TEST_F(DispatcherTest, bounced_reads_continue_when_short) {
  use_disk(512);
  engine.automatic = true;
  engine.at_most = 512;
  read({segment(1, 700, 5000)});
  run();
  EXPECT_EQ(outcome().bytes, 5000U);
  EXPECT_TRUE(is_in_place(1, 700, 5000));
}

TEST_F(DispatcherTest, direct_reads_may_end_with_the_file_inside_a_block) {
  use_disk(512);
  ASSERT_EQ(::ftruncate(fd(), 1000), 0);
  engine.automatic = true;
  read({segment(0, 0, 1000)});
  run();
  EXPECT_TRUE(outcome().status.ok()) << outcome().status.to_string();
  EXPECT_TRUE(is_in_place(0, 0, 1000));
  events.completions.clear();
  read({segment(0, 0, 1024)});
  run();
  EXPECT_EQ(outcome().status.code(), Code::out_of_range);
  EXPECT_EQ(outcome().bytes, 1000U);
}

TEST_F(DispatcherTest, scarce_bounce_buffers_make_reads_wait_not_fail) {
  use_disk(512);
  make_dispatcher({.depth = 8, .limits = {.bounce_bytes = 4096}, .bounce_buffers = 1});
  engine.automatic = true;
  read({segment(1, 0, 40'000)});
  run();
  EXPECT_EQ(engine.most_waiting, 1U);
  EXPECT_TRUE(is_in_place(1, 0, 40'000));
}

TEST_F(DispatcherTest, buffered_and_direct_writes_are_never_in_flight_together) {
  use_disk(512);
  make_dispatcher({.depth = 8, .limits = {.chunk_bytes = 4096}});
  write({segment(0, 0, 8192), segment(8192, 8192, 100)});
  ASSERT_EQ(engine.waiting.size(), 2U);
  engine.end(0);
  dispatcher->progress();
  EXPECT_EQ(engine.waiting.size(), 1U) << "the second direct write is still out";
  engine.end(0);
  dispatcher->progress();
  ASSERT_EQ(engine.waiting.size(), 1U);
  EXPECT_EQ(engine.waiting[0].file.fd, disk->file().engine_file(Path::buffered).fd);
  engine.end(0);
  run();
  EXPECT_TRUE(outcome().status.ok());
  EXPECT_TRUE(disk->file().writes_buffered());
  EXPECT_EQ(dispatcher->counters().moved(true, Path::buffered).value(), 100U);
  EXPECT_THAT(disk->file().describe(), HasSubstr("since one was unaligned"));
}

TEST_F(DispatcherTest, unaligned_writes_without_a_buffered_way_are_refused_by_name) {
  use_disk(512, /*has_twin=*/false);
  engine.automatic = true;
  write({segment(0, 0, 512), segment(513, 1024, 100)});
  run();
  EXPECT_EQ(outcome().status.code(), Code::invalid_argument);
  ASSERT_EQ(outcome().failures.size(), 1U);
  EXPECT_EQ(outcome().failures[0].segment, 1U);
  EXPECT_THAT(outcome().failures[0].status.message(), HasSubstr("O_DIRECT in units of 512"));
  EXPECT_EQ(outcome().bytes, 512U);
}

TEST_F(DispatcherTest, a_direct_write_that_ends_inside_a_block_writes_the_block_again) {
  use_disk(512);
  write({segment(0, 0, 2048)});
  engine.end(0, 700);
  dispatcher->progress();
  ASSERT_EQ(engine.waiting.size(), 1U);
  EXPECT_EQ(engine.waiting[0].offset, 512U);
  engine.end(0);
  run();
  EXPECT_EQ(outcome().bytes, 2048U);
}

TEST_F(DispatcherTest, registered_memory_insists_on_being_quiesced) {
  auto busy = std::make_unique<LocalMemory>(MemoryKind::system, dispatcher.get());
  std::vector<Segment> list{segment(0, 0, 4096)};
  list[0].local = busy.get();
  read(list);
  EXPECT_TRUE(dispatcher->touches(*busy));
  EXPECT_FALSE(dispatcher->touches(*local));
  engine.end(0);
  run();
  EXPECT_FALSE(dispatcher->touches(*busy));
}

}  // namespace
}  // namespace towpath::backends::posix
