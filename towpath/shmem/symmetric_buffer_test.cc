// What is done to the elements of other PEs.
#include <latch>
#include <numeric>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include <towpath/device/host/host_driver.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/remote.h>
#include <towpath/shmem/symmetric_buffer.h>
#include <towpath/shmem/testing/pes.h>
#include <towpath/sys/clock.h>

namespace towpath::shmem {
namespace {

using testing::as_threads;

class SymmetricBufferTest : public testing::EngineTest {};
TOWPATH_ON_EVERY_ENGINE(SymmetricBufferTest);

TEST_P(SymmetricBufferTest, puts_arrive_and_gets_bring) {
  as_threads({.pes = 3}, [](Context& context) {
    auto inbox = context.allocate_zeroed<int>(30);
    const int self = context.my_pe();
    std::vector<int> mine(10);
    std::iota(mine.begin(), mine.end(), 100 * self);
    const auto row = static_cast<std::uint64_t>(10 * self);
    for (int pe = 0; pe < 3; ++pe) EXPECT_TRUE(inbox->put({.pe = pe, .index = row}, mine).ok());
    ASSERT_TRUE(context.barrier().ok());
    for (int pe = 0; pe < 3; ++pe) EXPECT_EQ(inbox->local()[10 * pe + 9], 100 * pe + 9);
    std::vector<int> theirs(10);
    EXPECT_TRUE(inbox->get(theirs, {.pe = (self + 1) % 3, .index = row}).ok());
    EXPECT_EQ(theirs, mine);
    ASSERT_TRUE(context.barrier().ok());
  });
}

TEST(LocalBufferTest, what_is_out_of_range_is_refused_with_its_numbers) {
  auto context = Context::open();
  auto buffer = context->allocate_zeroed<int>(8);
  const std::vector<int> values(4);
  const Status far = buffer->put({.pe = 0, .index = 5}, values);
  EXPECT_EQ(far.code(), Code::out_of_range);
  EXPECT_EQ(far.message(), "elements 5 to 5 + 4 of PE 0: the symmetric buffer has 8");
  EXPECT_EQ(buffer->put({.pe = 1}, values).message(), "PE 1 of 1");
  EXPECT_EQ(buffer->put({.pe = -1}, values).code(), Code::out_of_range);
  EXPECT_EQ(buffer->g({.pe = 0, .index = 8}).code(), Code::out_of_range);
  EXPECT_EQ(buffer->p({.pe = 0, .index = ~0ULL}, 1).code(), Code::out_of_range);
  EXPECT_EQ(buffer->wait_until(8, {}).code(), Code::out_of_range);
  EXPECT_EQ(buffer->ptr(7), nullptr);
  EXPECT_EQ(SymmetricBuffer<int>().p({}, 1).code(), Code::not_ready);
  EXPECT_TRUE(buffer->put({.pe = 0, .index = 8}, {}).ok()) << "length 0 is legal at the end";
}

TEST_P(SymmetricBufferTest, strided_elements_go_where_they_belong) {
  as_threads({.pes = 2}, [](Context& context) {
    auto buffer = context.allocate_zeroed<short>(20);
    const int other = 1 - context.my_pe();
    std::vector<short> values(10);
    std::iota(values.begin(), values.end(), short{1});
    EXPECT_TRUE(
        buffer
            ->put_strided({.pe = other, .index = 1}, values, {.target = 3, .source = 2, .count = 5})
            .ok());
    ASSERT_TRUE(context.barrier().ok());
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(buffer->local()[1 + 3 * i], values[2 * i]);
    EXPECT_EQ(buffer->local()[0] + buffer->local()[2] + buffer->local()[3], 0);
    std::vector<short> back(5);
    EXPECT_TRUE(
        buffer->get_strided(back, {.pe = other, .index = 1}, {.target = 1, .source = 3, .count = 5})
            .ok());
    EXPECT_EQ(back[4], values[8]);
    const auto refused = [&](const Strides& strides) {
      return buffer->put_strided({.pe = other}, values, strides).code() == Code::out_of_range;
    };
    EXPECT_TRUE(refused({.target = 5, .source = 1, .count = 5}));
    EXPECT_TRUE(refused({.target = 1, .source = 3, .count = 5}));
    EXPECT_TRUE(refused({.target = 0, .source = 1, .count = 5}));
    EXPECT_TRUE(refused({.target = ~0ULL, .source = 1, .count = 2}));
    ASSERT_TRUE(context.barrier().ok());
  });
}

TEST_P(SymmetricBufferTest, large_copies_go_past_the_cache_and_arrive_whole) {
  constexpr std::uint64_t kCount = kStreamBytes + 4097;
  as_threads({.pes = 2, .heap_bytes = 32 << 20}, [](Context& context) {
    auto buffer = context.allocate_zeroed<unsigned char>(kCount + 3);
    std::vector<unsigned char> values(kCount);
    std::uint32_t state = 1;
    for (auto& value : values)
      value = static_cast<unsigned char>((state = state * 69069 + 1) >> 24U);
    const int other = 1 - context.my_pe();
    EXPECT_TRUE(buffer->put({.pe = other, .index = 3}, values).ok());
    ASSERT_TRUE(context.barrier().ok());
    EXPECT_TRUE(std::ranges::equal(buffer->local().subspan(3), values));
    EXPECT_EQ(buffer->local()[2], 0);
  });
}

template <typename T>
void golden_atomics() {
  auto context = Context::open();
  auto word = context->allocate_zeroed<T>(1);
  const auto start = [&] { return word->set({}, T{0x70}).ok(); };
  EXPECT_TRUE(start());
  EXPECT_EQ(*word->fetch_add({}, T{0x0c}), T{0x70});
  EXPECT_EQ(*word->fetch({}), T{0x7c});
  EXPECT_TRUE(start());
  EXPECT_EQ(*word->fetch_and({}, T{0x3c}), T{0x70});
  EXPECT_EQ(*word->fetch({}), T{0x30});
  EXPECT_TRUE(start());
  EXPECT_EQ(*word->fetch_or({}, T{0x0c}), T{0x70});
  EXPECT_EQ(*word->fetch({}), T{0x7c});
  EXPECT_TRUE(start());
  EXPECT_EQ(*word->fetch_xor({}, T{0x3c}), T{0x70});
  EXPECT_EQ(*word->fetch({}), T{0x4c});
  EXPECT_EQ(*word->swap({}, T{5}), T{0x4c});
  EXPECT_EQ(*word->compare_swap({}, {.expected = 4, .desired = 9}), T{5}) << "not swapped";
  EXPECT_EQ(*word->compare_swap({}, {.expected = 5, .desired = 9}), T{5});
  EXPECT_EQ(*word->fetch_inc({}), T{9});
  EXPECT_TRUE(word->inc({}).ok() && word->add({}, 2).ok());
  EXPECT_EQ(*word->fetch({}), T{13});
  EXPECT_TRUE(word->bit_or({}, 2).ok() && word->bit_and({}, 7).ok() && word->bit_xor({}, 1).ok());
  EXPECT_EQ(*word->fetch({}), T{6});
}

TEST(LocalBufferTest, atomic_operations_do_what_they_say) {
  golden_atomics<std::int32_t>();
  golden_atomics<std::uint32_t>();
  golden_atomics<std::int64_t>();
  golden_atomics<std::uint64_t>();
  auto context = Context::open();
  auto real = context->allocate_zeroed<double>(1);
  EXPECT_TRUE(real->set({}, 1.5).ok());
  EXPECT_EQ(*real->swap({}, -2.5), 1.5);
  EXPECT_EQ(*real->fetch({}), -2.5);
}

TEST_P(SymmetricBufferTest, atomic_additions_of_all_pes_are_all_counted) {
  as_threads({.pes = 3}, [](Context& context) {
    auto counters = context.allocate_zeroed<std::uint32_t>(1);
    for (int i = 0; i < 2000; ++i) EXPECT_TRUE(counters->inc({.pe = i % 3}).ok());
    ASSERT_TRUE(context.barrier().ok());
    EXPECT_EQ(*counters->fetch({.pe = 0}), 2001u);
    EXPECT_EQ(*counters->fetch({.pe = 2}), 1998u);
    ASSERT_TRUE(context.barrier().ok());
  });
}

TEST_P(SymmetricBufferTest, signal_is_seen_after_its_bytes) {
  constexpr int kRounds = 300;
  as_threads({.pes = 2}, [](Context& context) {
    auto data = context.allocate_zeroed<int>(100);
    auto signal = context.allocate_zeroed<std::uint64_t>(2);
    const int other = 1 - context.my_pe();
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      const bool sends = (round % 2 == 0) == (context.my_pe() == 0);
      if (sends) {
        const std::vector<int> values(100, static_cast<int>(round));
        ASSERT_TRUE(
            data->put_signal({.pe = other}, values,
                             {.word = *signal, .index = 1, .op = SignalOp::set, .value = round})
                .ok());
      } else {
        ASSERT_EQ(*signal->wait_until(1, {Compare::greater_equal, round}), round);
        ASSERT_EQ(data->local()[0], static_cast<int>(round));
        ASSERT_EQ(data->local()[99], static_cast<int>(round));
      }
    }
    EXPECT_EQ(data->put_signal({.pe = other}, {}, {.word = *signal, .index = 2}).code(),
              Code::out_of_range);
    ASSERT_TRUE(
        data->put_signal({.pe = other}, {}, {.word = *signal, .op = SignalOp::add, .value = 5})
            .ok());
    ASSERT_EQ(*signal->wait_until(0, {Compare::not_equal, 0}), 5u);
  });
}

TEST_P(SymmetricBufferTest, waits_for_all_any_and_some) {
  as_threads({.pes = 2}, [](Context& context) {
    auto flags = context.allocate_zeroed<std::uint64_t>(4);
    const std::vector<std::uint64_t> all = {0, 1, 2, 3};
    if (context.my_pe() == 0) {
      EXPECT_TRUE(flags->set({.pe = 1, .index = 2}, 9).ok());
      EXPECT_EQ(*flags->wait_until(0, {Compare::equal, 1}), 1u);
      for (std::uint64_t index : {0, 1, 3})
        EXPECT_TRUE(flags->set({.pe = 1, .index = index}, 9).ok());
    } else {
      EXPECT_EQ(*flags->wait_until_any(all, {Compare::equal, 9}), 2u);
      EXPECT_EQ(*flags->wait_until_some(all, {Compare::equal, 9}), std::vector<std::size_t>{2});
      EXPECT_FALSE(*flags->test_all(all, {Compare::equal, 9}));
      EXPECT_EQ(*flags->test_any(std::span(all).first(2), {Compare::equal, 9}), std::nullopt);
      EXPECT_TRUE(*flags->test(2, {Compare::greater, 8}));
      EXPECT_TRUE(flags->set({.pe = 0}, 1).ok());
      EXPECT_TRUE(flags->wait_until_all(all, {Compare::equal, 9}).ok());
      EXPECT_TRUE(*flags->test_all(all, {Compare::equal, 9}));
      EXPECT_EQ(flags->test_some(all, {Compare::less, 10})->size(), 4u);
      std::set<std::size_t> found;
      for (int call = 0; call < 4; ++call)
        found.insert(**flags->test_any(all, {Compare::equal, 9}));
      EXPECT_EQ(found.size(), 4u) << "each by turns";
    }
    EXPECT_EQ(*flags->wait_until_any({}, {}), std::nullopt) << "nothing to wait for";
  });
}

/// A PE may change an element back as soon as it was seen.
TEST(LocalBufferTest, wait_for_some_finds_one_however_it_changes) {
  as_threads({.pes = 2}, [](Context& context) {
    auto flags = context.allocate_zeroed<std::uint64_t>(2);
    ASSERT_TRUE(context.barrier().ok());
    if (context.my_pe() == 0) {
      for (int i = 0; i < 300'000; ++i) (void)flags->set({.pe = 1}, i % 2);
      EXPECT_TRUE(flags->set({.pe = 1}, 1).ok() && flags->set({.pe = 1, .index = 1}, 1).ok());
    } else {
      int without = 0;
      while (!*flags->test(1, {Compare::equal, 1}))
        without +=
            flags->wait_until_some(std::vector<std::uint64_t>{0}, {Compare::equal, 1})->empty();
      EXPECT_EQ(without, 0);
    }
    ASSERT_TRUE(context.barrier().ok());
  });
}

/// The way to PE 1, of whose puts a part has come the first three times that this is asked.
class InParts final : public Remote {
 public:
  explicit InParts(int& asked) : asked_(asked) {}
  Status start(const Here& here) override {
    here.job->pe(1).state.store(static_cast<std::uint32_t>(PeState::running));
    return {};
  }
  bool is_whole(ConstByteSpan element, const Condition& condition) noexcept override {
    return element.size() == sizeof(std::uint64_t) && ++asked_ > 3 && condition();
  }
  Status put(RemoteAddress, ConstByteSpan) override { return {}; }
  Status get(RemoteAddress, ByteSpan) override { return {}; }
  Result<std::uint64_t> change(RemoteAddress, const Change&) override { return 0; }
  Status post(RemoteAddress, const Change&) override { return {}; }
  void quiet() noexcept override {}
  Status arrive(const ArrivalNews&, std::span<const std::uint32_t>) override { return {}; }
  Result<std::uint64_t> take_slot() override { return 0; }
  void leave_slot(std::uint32_t, std::uint32_t) noexcept override {}
  void end_all(int) noexcept override {}
  void close(PeState) noexcept override {}

 private:
  int& asked_;
};

TEST(LocalBufferTest, a_part_of_an_element_is_not_taken_for_it) {
  int asked = 0;
  JobFiles files = *create_job({.pes = 2, .heap_bytes = testing::kTestHeap, .heaps = 1});
  auto context = Context::open({.my_pe = 0,
                                .pes = 2,
                                .files = spread(std::move(files), {0}, 2),
                                .hosts = {0, 1},
                                .remote = std::make_unique<InParts>(asked)});
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const SymmetricBuffer<std::uint64_t> words(std::make_shared<const Block>(
      context->underneath(), BlockPlace{.slot = 0, .offset = 0, .size_bytes = 64}));
  const std::vector<std::uint64_t> third = {2};
  const Wanted<std::uint64_t> seven = {Compare::equal, 7};
  EXPECT_FALSE(*words.test(2, seven));
  EXPECT_EQ(asked, 0) << "it is not as wanted";
  words.local()[2] = 7;
  EXPECT_FALSE(*words.test(2, seven));
  EXPECT_FALSE(*words.test_all(third, seven));
  EXPECT_TRUE(words.test_some(third, seven)->empty());
  EXPECT_EQ(*words.test_any(third, seven), 0u);
  EXPECT_EQ(std::exchange(asked, 0), 4);
  EXPECT_EQ(*words.wait_until(2, seven), 7u);
  EXPECT_EQ(std::exchange(asked, 0), 4);
  EXPECT_EQ(*words.wait_until_any(third, seven), 0u);
  EXPECT_EQ(std::exchange(asked, 0), 4);
  EXPECT_EQ(*words.wait_until_some(third, seven), std::vector<std::size_t>{0});
  EXPECT_EQ(std::exchange(asked, 0), 4);
  EXPECT_TRUE(words.wait_until_all(third, seven).ok());
  EXPECT_EQ(asked, 4);
}

TEST(LocalBufferTest, comparisons_mean_what_they_say) {
  EXPECT_TRUE(holds(1, Compare::less, 2) && !holds(2, Compare::less, 2));
  EXPECT_TRUE(holds(2, Compare::less_equal, 2) && !holds(3, Compare::less_equal, 2));
  EXPECT_TRUE(holds(3, Compare::greater, 2) && !holds(2, Compare::greater, 2));
  EXPECT_TRUE(holds(2, Compare::greater_equal, 2) && !holds(1, Compare::greater_equal, 2));
  EXPECT_TRUE(holds(2, Compare::equal, 2) && holds(1, Compare::not_equal, 2));
}

TEST(LocalBufferTest, raw_stores_are_seen_by_sleepers) {
  as_threads({.pes = 2, .context = {.looks = run::Looks{.spins = 0}}}, [](Context& context) {
    auto flag = context.allocate_zeroed<std::uint64_t>(1);
    ASSERT_TRUE(context.barrier().ok());
    if (context.my_pe() == 0)
      std::atomic_ref<std::uint64_t>(*flag->ptr(1)).store(1, std::memory_order_release);
    else
      EXPECT_TRUE(flag->wait_until(0, {Compare::equal, 1}).ok());
    ASSERT_TRUE(context.barrier().ok());
  });
}

TEST(LocalBufferTest, stream_keeps_the_order) {
  const sys::SystemClock clock;
  device::HostDriver driver(clock);
  auto device = *driver.open(0);
  as_threads({.pes = 2}, [&](Context& context) {
    auto stream = *device->create_stream();
    auto buffer = context.allocate_zeroed<int>(1000);
    const int other = 1 - context.my_pe();
    std::vector<int> values(1000, 1 + context.my_pe()), back(1000);
    EXPECT_TRUE(buffer->put_on_stream(*stream, {.pe = other}, values).ok());
    EXPECT_TRUE(context.barrier_on_stream(*stream).ok());
    EXPECT_TRUE(buffer->get_on_stream(*stream, back, {.pe = other}).ok());
    EXPECT_TRUE(context.quiet_on_stream(*stream).ok());
    EXPECT_EQ(buffer->put_on_stream(*stream, {.pe = 5}, values).code(), Code::out_of_range);
    ASSERT_TRUE(stream->synchronize().ok());
    EXPECT_TRUE(context.stream_failure().ok());
    EXPECT_EQ(back, values) << "what this PE put there before the barrier";
    EXPECT_EQ(buffer->local()[999], 1 + other);
    ASSERT_TRUE(context.barrier().ok());
  });
}

TEST(LocalBufferTest, what_a_stream_could_not_do_is_reported) {
  const sys::SystemClock clock;
  device::HostDriver driver(clock);
  auto stream = *(*driver.open(0))->create_stream();
  auto context = Context::open();
  auto buffer = context->allocate_zeroed<int>(1);
  std::latch is_finalized(1);
  std::vector<int> value(1, 7);
  ASSERT_TRUE(stream->run([&] { is_finalized.wait(); }).ok());
  EXPECT_TRUE(buffer->get_on_stream(*stream, value, {}).ok());
  EXPECT_TRUE(context->finalize().ok());
  is_finalized.count_down();
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(value[0], 7);
  EXPECT_EQ(context->stream_failure().code(), Code::not_ready);
  EXPECT_TRUE(context->stream_failure().ok()) << "once";
  EXPECT_EQ(buffer->put_on_stream(*stream, {}, value).code(), Code::not_ready);
}

}  // namespace
}  // namespace towpath::shmem
