// What every driver keeps of streams, events and pools.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <mutex>

#include <towpath/device/conformance/candidate.h>
#include <towpath/run/eventually.h>

namespace towpath::device::conformance {
namespace {

/// Holds a stream up until it is opened, or dies: declared behind the streams, which wait when they
/// die.
class Barrier {
 public:
  Barrier() : opened_(door_.get_future().share()) {}
  ~Barrier() { open(); }
  HostFunction function() const {
    return [opened = opened_] { opened.wait(); };
  }
  void open() {
    if (!std::exchange(is_open_, true)) door_.set_value();
  }

 private:
  std::promise<void> door_;
  std::shared_future<void> opened_;
  bool is_open_ = false;
};

/// What ran, in order.
class Trail {
 public:
  HostFunction step(std::string name) {
    return [this, name = std::move(name)] {
      const std::lock_guard lock(mutex_);
      text_ += name;
    };
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// Gives other streams every chance to run what they should not. No functions: those of all streams
/// may share one thread of the driver, which a barrier holds up. The memory is freed by the caller,
/// behind the barrier: freeing waits for all that the device has to do.
void let_others_run(Device& device, const Memory& memory) {
  const auto stream = device.create_stream().value();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(stream->fill({memory.address(), 4096}).ok());
    ASSERT_TRUE(stream->synchronize().ok());
  }
}

TEST_P(DeviceConformance, a_word_is_written_behind_what_was_given_before) {
  const auto there = random_bytes(6, 1 << 20);
  std::vector<std::byte> back(there.size() + 8);
  auto memory = device_->allocate(back.size()).value();
  const std::uint64_t word = memory.address() + there.size();
  const auto stream = device_->create_stream().value();
  ASSERT_TRUE(stream->fill({memory.address(), back.size()}).ok());
  ASSERT_TRUE(stream->copy({memory.address(), address_of(there.data()), there.size()}).ok());
  const Status given = stream->write_word({word, 0x0123456789abcdef});
  if (given.code() == Code::unsupported) GTEST_SKIP() << given.to_string();
  ASSERT_TRUE(given.ok()) << given.to_string();
  ASSERT_TRUE(stream->copy({address_of(back.data()), memory.address(), back.size()}).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  std::uint64_t seen = 0;
  std::memcpy(&seen, back.data() + there.size(), sizeof seen);
  EXPECT_EQ(seen, 0x0123456789abcdefu);
  back.resize(there.size());
  EXPECT_EQ(back, there);
  EXPECT_EQ(stream->write_word({word + 4, 1}).code(), Code::invalid_argument);
  EXPECT_EQ(stream->write_word({}).code(), Code::invalid_argument);
}

TEST_P(DeviceConformance, work_is_done_in_the_order_in_which_it_was_given) {
  Trail trail;
  const auto there = random_bytes(4, 100'000);
  std::vector<std::byte> back(there.size());
  auto one = device_->allocate(there.size()).value();
  auto other = device_->allocate(there.size()).value();
  const auto stream = device_->create_stream().value();
  ASSERT_TRUE(stream->fill({one.address(), there.size(), std::byte{9}}).ok());
  ASSERT_TRUE(stream->run(trail.step("1")).ok());
  ASSERT_TRUE(stream->copy({one.address(), address_of(there.data()), there.size()}).ok());
  ASSERT_TRUE(stream->copy({other.address(), one.address(), there.size()}).ok());
  ASSERT_TRUE(stream->fill({one.address(), there.size(), std::byte{9}}).ok());
  ASSERT_TRUE(stream->run(trail.step("2")).ok());
  ASSERT_TRUE(stream->copy({address_of(back.data()), other.address(), there.size()}).ok());
  ASSERT_TRUE(stream->run(trail.step("3")).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(back, there);
  EXPECT_EQ(trail.text(), "123");
  EXPECT_TRUE(stream->is_idle().value());
}

TEST_P(DeviceConformance, giving_work_does_not_wait_for_it) {
  auto memory = device_->allocate(4096).value();
  const auto stream = device_->create_stream().value();
  Barrier barrier;
  ASSERT_TRUE(stream->run(barrier.function()).ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(stream->fill({memory.address(), 4096}).ok());
  EXPECT_FALSE(stream->is_idle().value());
  barrier.open();
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_TRUE(stream->is_idle().value());
}

TEST_P(DeviceConformance, streams_do_not_wait_for_each_other) {
  auto memory = device_->allocate(4096).value();
  const auto blocked = device_->create_stream().value();
  const auto free = device_->create_stream().value();
  Barrier barrier;
  ASSERT_TRUE(blocked->run(barrier.function()).ok());
  ASSERT_TRUE(free->fill({memory.address(), 4096}).ok());
  EXPECT_TRUE(free->synchronize().ok());
  EXPECT_FALSE(blocked->is_idle().value());
}

TEST_P(DeviceConformance, a_stream_that_dies_waits_for_its_work) {
  std::atomic<bool> ran{false};
  {
    Barrier barrier;
    const auto stream = device_->create_stream().value();
    ASSERT_TRUE(stream->run(barrier.function()).ok());
    ASSERT_TRUE(stream->run([&] { ran = true; }).ok());
    barrier.open();
  }
  EXPECT_TRUE(ran);
}

TEST_P(DeviceConformance, a_function_lets_go_of_what_it_holds) {
  const auto held = std::make_shared<int>(1);
  const auto stream = device_->create_stream().value();
  ASSERT_TRUE(stream->run([held] {}).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(stream->run(nullptr).code(), Code::invalid_argument);
}

TEST_P(DeviceConformance, an_event_is_done_when_the_work_before_it_is) {
  const auto stream = device_->create_stream().value();
  const auto event = device_->create_event().value();
  EXPECT_TRUE(event->is_done().value()) << "never recorded";
  EXPECT_TRUE(event->wait().ok());
  Barrier barrier;
  ASSERT_TRUE(stream->run(barrier.function()).ok());
  ASSERT_TRUE(stream->record(*event).ok());
  EXPECT_FALSE(event->is_done().value());
  barrier.open();
  EXPECT_TRUE(event->wait().ok());
  EXPECT_TRUE(event->is_done().value());
}

TEST_P(DeviceConformance, a_stream_waits_for_anothers_event) {
  Trail trail;
  const auto memory = device_->allocate(4096).value();
  const auto first = device_->create_stream().value();
  const auto second = device_->create_stream().value();
  const auto event = device_->create_event().value();
  Barrier barrier;
  ASSERT_TRUE(first->run(barrier.function()).ok());
  ASSERT_TRUE(first->run(trail.step("a")).ok());
  ASSERT_TRUE(first->record(*event).ok());
  ASSERT_TRUE(second->wait(*event).ok());
  ASSERT_TRUE(second->run(trail.step("b")).ok());
  let_others_run(*device_, memory);
  EXPECT_EQ(trail.text(), "");
  barrier.open();
  ASSERT_TRUE(second->synchronize().ok());
  EXPECT_EQ(trail.text(), "ab");
}

TEST_P(DeviceConformance, a_wait_is_for_the_record_of_then_not_for_a_later_one) {
  Trail trail;
  const auto memory = device_->allocate(4096).value();
  const auto slow = device_->create_stream().value();
  const auto fast = device_->create_stream().value();
  const auto waiter = device_->create_stream().value();
  const auto event = device_->create_event().value();
  Barrier barrier;
  ASSERT_TRUE(slow->run(barrier.function()).ok());
  ASSERT_TRUE(slow->run(trail.step("a")).ok());
  ASSERT_TRUE(slow->record(*event).ok());
  ASSERT_TRUE(waiter->wait(*event).ok());
  ASSERT_TRUE(waiter->run(trail.step("b")).ok());
  ASSERT_TRUE(fast->record(*event).ok());
  EXPECT_TRUE(event->wait().ok()) << "it stands for the record in the fast stream now";
  let_others_run(*device_, memory);
  EXPECT_EQ(trail.text(), "");
  barrier.open();
  ASSERT_TRUE(waiter->synchronize().ok());
  EXPECT_EQ(trail.text(), "ab");
}

TEST_P(DeviceConformance, an_event_may_die_before_those_who_wait_for_it) {
  const auto first = device_->create_stream().value();
  const auto second = device_->create_stream().value();
  auto event = device_->create_event().value();
  Barrier barrier;
  ASSERT_TRUE(first->run(barrier.function()).ok());
  ASSERT_TRUE(first->record(*event).ok());
  ASSERT_TRUE(second->wait(*event).ok());
  event.reset();
  barrier.open();
  EXPECT_TRUE(second->synchronize().ok());
}

TEST_P(DeviceConformance, an_event_is_recorded_any_number_of_times) {
  const auto stream = device_->create_stream().value();
  const auto event = device_->create_event().value();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(stream->record(*event).ok());
    ASSERT_TRUE(event->wait().ok());
  }
}

TEST_P(DeviceConformance, timed_events_report_the_time_between_them) {
  const auto stream = device_->create_stream().value();
  const auto first = device_->create_event({.timed = true}).value();
  const auto last = device_->create_event({.timed = true}).value();
  const auto untimed = device_->create_event().value();
  ASSERT_TRUE(stream->record(*first).ok());
  ASSERT_TRUE(stream->record(*untimed).ok());
  ASSERT_TRUE(stream->record(*last).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  const auto time = last->since(*first);
  ASSERT_TRUE(time.ok()) << time.status().to_string();
  EXPECT_GE(time->count(), 0);
  EXPECT_EQ(untimed->since(*first).code(), Code::invalid_argument);
  EXPECT_EQ(device_->create_event({.timed = true, .interprocess = true}).code(),
            Code::invalid_argument);
}

TEST_P(DeviceConformance, a_time_of_work_that_is_under_way_is_not_ready) {
  const auto stream = device_->create_stream().value();
  const auto first = device_->create_event({.timed = true}).value();
  const auto last = device_->create_event({.timed = true}).value();
  ASSERT_TRUE(stream->record(*first).ok());
  Barrier barrier;
  ASSERT_TRUE(stream->run(barrier.function()).ok());
  ASSERT_TRUE(stream->record(*last).ok());
  EXPECT_EQ(last->since(*first).code(), Code::not_ready);
}

TEST_P(DeviceConformance, a_batch_copies_each_of_its_extents) {
  constexpr std::size_t kBlock = 257, kBlocks = 1000;
  const auto there = random_bytes(5, kBlock * kBlocks);
  std::vector<std::byte> back(there.size());
  auto memory = device_->allocate(there.size()).value();
  const auto stream = device_->create_stream().value();
  std::vector<Copy> in;
  std::vector<Copy> out;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::uint64_t mirrored = memory.address() + (kBlocks - 1 - i) * kBlock;
    in.push_back({mirrored, address_of(there.data()) + i * kBlock, kBlock});
    in.push_back({mirrored, address_of(there.data()), 0});
    out.push_back({address_of(back.data()) + i * kBlock, mirrored, kBlock});
  }
  ASSERT_TRUE(stream->copy_batch(in).ok());
  ASSERT_TRUE(stream->copy_batch(out).ok());
  ASSERT_TRUE(stream->copy_batch({}).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(back, there);
}

TEST_P(DeviceConformance, rows_are_copied_with_their_pitches) {
  constexpr std::size_t kRows = 33, kWidth = 100, kWide = 160, kNarrow = 112;
  const auto there = random_bytes(6, kRows * kWide);
  std::vector<std::byte> back(kRows * kNarrow);
  auto memory = device_->allocate(kRows * kWide).value();
  const auto stream = device_->create_stream().value();
  ASSERT_TRUE(stream->copy({memory.address(), address_of(there.data()), there.size()}).ok());
  ASSERT_TRUE(stream
                  ->copy_2d({.target = address_of(back.data()),
                             .target_pitch = kNarrow,
                             .source = memory.address() + 8,
                             .source_pitch = kWide,
                             .width = kWidth,
                             .rows = kRows})
                  .ok());
  ASSERT_TRUE(stream->synchronize().ok());
  for (std::size_t row = 0; row < kRows; ++row) {
    EXPECT_TRUE(std::equal(back.begin() + row * kNarrow, back.begin() + row * kNarrow + kWidth,
                           there.begin() + row * kWide + 8))
        << "row " << row;
    EXPECT_EQ(back[row * kNarrow + kWidth], std::byte{0}) << "behind row " << row;
  }
  EXPECT_EQ(stream
                ->copy_2d({.target = 1,
                           .target_pitch = 9,
                           .source = 1,
                           .source_pitch = 10,
                           .width = 10,
                           .rows = 1})
                .code(),
            Code::invalid_argument);
}

// Farther apart than CUDA copies in two dimensions: 2 GiB, and 1 MiB for the tests' library.
TEST_P(DeviceConformance, rows_far_apart_are_copied) {
  constexpr std::size_t kWidth = 512, kRows = 2;
  const std::uint64_t pitch = GetParam() == "cuda" ? (1ULL << 31U) + 512 : 2 << 20U;
  const auto there = random_bytes(5, kRows * kWidth);
  std::vector<std::byte> back(there.size());
  const auto memory = device_->allocate((kRows - 1) * pitch + kWidth).value();
  const auto stream = device_->create_stream().value();
  const Copy2d in{.target = memory.address(),
                  .target_pitch = pitch,
                  .source = address_of(there.data()),
                  .source_pitch = kWidth,
                  .width = kWidth,
                  .rows = kRows};
  const Copy2d out{.target = address_of(back.data()),
                   .target_pitch = kWidth,
                   .source = memory.address(),
                   .source_pitch = pitch,
                   .width = kWidth,
                   .rows = kRows};
  for (const Copy2d& one : {in, out}) {
    const Status given = stream->copy_2d(one);
    ASSERT_TRUE(given.ok()) << given.to_string();
  }
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(back, there);
}

// [token, head, byte] becomes [head, token, byte]; of two blocks, which change places.
TEST_P(DeviceConformance, boxes_are_copied_in_the_order_of_the_stream) {
  if (const Status has = device_->has_box_kernel(); !has.ok()) GTEST_SKIP() << has.to_string();
  constexpr std::size_t kTokens = 5, kHeads = 3, kPiece = 48, kBlock = kTokens * kHeads * kPiece;
  const auto there = random_bytes(8, 2 * kBlock);
  std::vector<std::byte> back(there.size()), expected(there.size());
  // CUDA may wait for a stream that is given a copy from memory that is not pinned.
  auto pinned = device_->allocate_pinned(there.size()).value();
  std::ranges::copy(there, bytes_at(pinned.address(), pinned.size()).begin());
  auto source = device_->allocate(there.size()).value();
  auto target = device_->allocate(there.size()).value();
  const auto stream = device_->create_stream().value();
  std::vector<BoxCopy> boxes;
  for (std::size_t b = 0; b < 2; ++b) {
    BoxCopy box{.target = target.address() + (1 - b) * kBlock,
                .source = source.address() + b * kBlock,
                .length = kPiece,
                .rank = 2};
    box.dimensions[0] = {kHeads, kPiece, kTokens * kPiece};
    box.dimensions[1] = {kTokens, kHeads * kPiece, kPiece};
    boxes.push_back(box);
    for (std::size_t t = 0; t < kTokens; ++t)
      for (std::size_t h = 0; h < kHeads; ++h)
        std::copy_n(there.begin() + b * kBlock + (t * kHeads + h) * kPiece, kPiece,
                    expected.begin() + (1 - b) * kBlock + (h * kTokens + t) * kPiece);
  }
  Barrier barrier;
  ASSERT_TRUE(stream->run(barrier.function()).ok());
  ASSERT_TRUE(stream->copy({source.address(), pinned.address(), there.size()}).ok());
  ASSERT_TRUE(stream->copy_boxes(boxes).ok());
  ASSERT_TRUE(stream->copy_boxes({}).ok());
  ASSERT_TRUE(stream->fill({source.address(), there.size(), std::byte{9}}).ok());
  boxes.clear();  // they are the stream's no more than the caller's
  barrier.open();
  ASSERT_TRUE(stream->copy({address_of(back.data()), target.address(), back.size()}).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(back, expected);
}

// [row, column] of pinned memory becomes [column, row] of the device's, and that again the first;
// in lanes of each length that there is.
TEST_P(DeviceConformance, boxes_of_any_alignment_go_between_pinned_memory_and_the_devices) {
  if (const Status has = device_->has_box_kernel(); !has.ok()) GTEST_SKIP() << has.to_string();
  constexpr std::size_t kRows = 70, kColumns = 50;
  const auto stream = device_->create_stream().value();
  for (const std::size_t unit : {1, 2, 4, 8, 16}) {
    SCOPED_TRACE(unit);
    const std::size_t piece = 3 * unit, bytes = kRows * kColumns * piece;
    const auto pinned = device_->allocate_pinned(unit + 2 * bytes).value();
    const auto memory = device_->allocate(unit + bytes).value();
    const ByteSpan host = bytes_at(pinned.address() + unit, 2 * bytes);
    const auto there = random_bytes(unit, bytes);
    std::ranges::copy(there, host.begin());
    BoxCopy in{.target = memory.address() + unit,
               .source = address_of(host.data()),
               .length = piece,
               .rank = 2};
    in.dimensions[0] = {kColumns, piece, kRows * piece};
    in.dimensions[1] = {kRows, kColumns * piece, piece};
    BoxCopy out{.target = in.source + bytes, .source = in.target, .length = piece, .rank = 2};
    out.dimensions[0] = {kColumns, kRows * piece, piece};
    out.dimensions[1] = {kRows, piece, kColumns * piece};
    ASSERT_TRUE(stream->copy_boxes({&in, 1}).ok());
    ASSERT_TRUE(stream->copy_boxes({&out, 1}).ok());
    ASSERT_TRUE(stream->synchronize().ok());
    EXPECT_TRUE(std::ranges::equal(host.last(bytes), there));
    std::vector<std::byte> second_row(piece);  // of the device: the second column
    ASSERT_TRUE(
        device_->copy({address_of(second_row.data()), in.target + kRows * piece, piece}).ok());
    EXPECT_TRUE(std::ranges::equal(second_row, std::span(there).subspan(piece, piece)));
  }
}

TEST_P(DeviceConformance, a_pool_gives_and_takes_in_a_streams_order) {
  if (!device_->info().has_pools) GTEST_SKIP() << "the device has no pools";
  const auto pool = device_->create_pool({.keep_bytes = 1 << 20}).value();
  const auto stream = device_->create_stream().value();
  const auto there = random_bytes(7, 65536);
  std::vector<std::byte> back(there.size());
  {
    auto memory = PooledMemory::allocate(pool, stream, there.size());
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    EXPECT_GE(pool->figures()->used_bytes, there.size());
    ASSERT_TRUE(stream->copy({memory->address(), address_of(there.data()), there.size()}).ok());
    ASSERT_TRUE(stream->copy({address_of(back.data()), memory->address(), there.size()}).ok());
  }  // freed behind the copies
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(back, there);
  EXPECT_EQ(pool->figures()->used_bytes, 0u);
  EXPECT_TRUE(pool->trim(0).ok());
  EXPECT_EQ(pool->allocate(0, *stream).code(), Code::invalid_argument);
  EXPECT_FALSE(pool->free(0x1000, *stream).ok()) << "what the pool never gave";
}

}  // namespace
}  // namespace towpath::device::conformance
