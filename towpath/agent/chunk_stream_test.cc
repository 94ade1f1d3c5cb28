#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/agent/chunk_stream.h>
#include <towpath/agent/testing/agent_pair.h>
#include <towpath/agent/testing/scripted_backend.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/memory/disk_region.h>
#include <towpath/run/worker.h>
#include <towpath/sys/system_file.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::agent {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kChunk = 4096;

std::uint64_t look(std::uint64_t& word) {
  return std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire);
}

std::uint64_t first_number(const std::byte* chunk) {
  std::uint64_t number = 0;
  std::memcpy(&number, chunk, sizeof number);
  return number;
}

/// Reads each chunk as soon as the word says that it is there; `taken` is told when it is given.
struct Consumer {
  explicit Consumer(std::uint64_t& word, const std::byte* memory, std::uint64_t slots_there,
                    std::uint64_t* taken = nullptr)
      : advertised(word),
        worker(*run::Worker::start("consumer", [=, this](const run::StopToken& stop) {
          std::uint64_t seen = 0;
          while (!stop.stop_requested()) {
            const std::uint64_t word_now = look(advertised);
            for (; seen < landed_chunks(word_now); ++seen) {
              numbers.push_back(first_number(memory + seen % slots_there * kChunk));
              if (taken != nullptr)
                std::atomic_ref<std::uint64_t>(*taken).store(seen + 1, std::memory_order_release);
            }
            if ((word_now & kStreamClosed) != 0) return;
          }
        })) {}

  std::vector<std::uint64_t> numbers;  // of the worker, until it has ended
  std::uint64_t& advertised;
  run::Worker worker;
};

TEST(ChunkStreamTest, a_thread_sees_each_chunk_by_one_word_and_gives_its_memory_back) {
  constexpr std::uint64_t kChunks = 200, kSlots = 4;
  Pair pair;
  for (std::uint64_t i = 0; i < kChunks; ++i)
    std::memcpy(pair.right_memory->bytes().data() + i * kChunk, &i, sizeof i);
  std::vector<Descriptor> slots;
  for (std::uint64_t i = 0; i < kChunks; ++i)
    slots.push_back({pair.left_memory->descriptor().address + i % kSlots * kChunk, kChunk, 0});
  alignas(8) std::uint64_t advertised = 77, taken = 0;
  auto stream =
      ChunkStream::open({.agent = pair.left.get(),
                         .local = *pair.left->prepare(DescriptorView{MemoryKind::system, slots}),
                         .remote = pair.theirs(0, kChunks),
                         .advertised = &advertised,
                         .taken = &taken,
                         .slots = kSlots,
                         .depth = 3});
  ASSERT_TRUE(stream.ok()) << stream.status().to_string();
  EXPECT_EQ(look(advertised), 0u);
  std::vector<std::uint64_t> seen;
  {
    Consumer consumer(advertised, pair.left_memory->bytes().data(), kSlots, &taken);
    stream->wait();
    consumer.worker.join();
    seen = consumer.numbers;
  }
  EXPECT_TRUE(stream->status().ok());
  EXPECT_EQ(look(advertised), kChunks | kStreamClosed);
  ASSERT_EQ(seen.size(), kChunks);
  for (std::uint64_t i = 0; i < kChunks; ++i) ASSERT_EQ(seen[i], i);
}

/// A stream of eight chunks over a backend that answers when the test says so.
struct ScriptedStream {
  explicit ScriptedStream(std::size_t depth = 8) {
    script.is_eager = false;
    EXPECT_TRUE(registry.add(scripted_type("late", script)).ok());
    agent = *Agent::create({.name = "a", .registry = &registry, .clock = &clock});
    EXPECT_TRUE(agent->add_backend("late").ok());
    pool = *agent->register_region(memory);
    DescriptorList list(MemoryKind::system);
    EXPECT_TRUE(
        list.add(StridedDescriptor{memory->descriptor().address, kChunk, kChunk, 8, 0}).ok());
    stream.emplace(*ChunkStream::open({.agent = agent.get(),
                                       .local = *agent->prepare(list),
                                       .remote = *agent->prepare_remote("a", list),
                                       .advertised = &advertised,
                                       .depth = depth}));
    (void)stream->progress();
  }
  /// Answers what was posted as `index`-th of those under way.
  void answer(std::size_t index, Status status = {}) {
    script.active[index]->complete(std::move(status));
    (void)stream->progress();
  }

  Script script;
  sys::SystemClock clock;
  backend::Registry registry;
  memory::SharedRegion memory = *memory::SystemRegion::allocate(8 * kChunk);
  std::unique_ptr<Agent> agent;
  memory::Registration pool;
  alignas(8) std::uint64_t advertised = 0;
  std::optional<ChunkStream> stream;
};

TEST(ChunkStreamTest, a_chunk_that_lands_early_is_advertised_behind_those_before_it) {
  ScriptedStream s;
  ASSERT_EQ(s.script.active.size(), 8u);
  s.answer(1);
  s.answer(1);  // chunks 1 and 2
  EXPECT_EQ(look(s.advertised), 0u);
  s.answer(0);
  EXPECT_EQ(look(s.advertised), 3u);
  while (!s.script.active.empty()) s.answer(0);
  EXPECT_EQ(look(s.advertised), 8 | kStreamClosed);
  EXPECT_TRUE(s.stream->ended() && s.stream->status().ok());
}

TEST(ChunkStreamTest, no_more_are_under_way_than_were_allowed) {
  ScriptedStream s(2);
  EXPECT_EQ(s.script.active.size(), 2u);
  s.answer(1);
  EXPECT_EQ(s.script.active.size(), 1u);  // the early one keeps its place
  s.answer(0);
  EXPECT_EQ(s.script.active.size(), 2u);
  while (!s.script.active.empty()) s.answer(0);
  EXPECT_EQ(s.stream->landed(), 8u);
}

TEST(ChunkStreamTest,
     nothing_is_advertised_of_a_chunk_that_failed_nor_behind_it_and_closing_waits) {
  ScriptedStream s;
  s.answer(0);
  s.answer(0, error(Code::io_error, "unreadable"));  // chunk 1
  EXPECT_EQ(look(s.advertised), s.script.active.empty() ? 1 | kStreamClosed : 1u);
  while (!s.script.active.empty()) s.answer(0);
  EXPECT_EQ(look(s.advertised), 1 | kStreamClosed);
  EXPECT_THAT(s.stream->status().to_string(), HasSubstr("unreadable"));
}

TEST(ChunkStreamTest, a_stream_that_is_dropped_closes_the_word) {
  ScriptedStream s;
  s.answer(0);
  s.stream.reset();
  EXPECT_EQ(look(s.advertised), 1 | kStreamClosed);
  EXPECT_TRUE(s.script.active.empty());
}

TEST(ChunkStreamTest, a_file_that_ends_early_is_advertised_as_far_as_it_goes) {
  backend::Registry registry;
  ASSERT_TRUE(registry.add(backends::posix::posix_type()).ok());
  sys::SystemClock clock;
  sys::SystemFileSystem files;
  auto folder = *sys::TemporaryDirectory::create();
  auto agent = *Agent::create({.name = "a", .registry = &registry, .clock = &clock});
  ASSERT_TRUE(agent->add_backend("posix").ok());
  memory::SharedRegion memory = *memory::SystemRegion::allocate(8 * kChunk);
  auto file =
      *memory::DiskRegion::open({.path = folder.path() + "/kv", .size_bytes = 8 * kChunk}, files);
  const auto pool = *agent->register_region(memory);
  const auto disk = *agent->register_region(file);
  ASSERT_EQ(::ftruncate(file->descriptor().fd, 5 * kChunk + 8), 0);
  DescriptorList here(MemoryKind::system), there(MemoryKind::disk);
  ASSERT_TRUE(here.add(StridedDescriptor{memory->descriptor().address, kChunk, kChunk, 8, 0}).ok());
  ASSERT_TRUE(there.add(StridedDescriptor{0, kChunk, kChunk, 8, disk.descriptor().device_id}).ok());
  alignas(8) std::uint64_t advertised = 0;
  auto stream = *ChunkStream::open({.agent = agent.get(),
                                    .local = *agent->prepare(here),
                                    .remote = *agent->prepare_remote("a", there),
                                    .advertised = &advertised});
  stream.wait();
  EXPECT_EQ(look(advertised), 5 | kStreamClosed);
  EXPECT_FALSE(stream.status().ok());
}

TEST(ChunkStreamTest, a_word_in_a_device_s_memory_is_written_by_a_stream_of_the_device) {
  constexpr std::uint64_t kChunks = 100;
  Pair pair;
  device::HostDriver driver(pair.clock);
  const memory::SharedDevice device = *driver.open(0);
  device::Memory there = *device->allocate(64);
  auto word = *memory::DeviceWord::open(device, there.address());
  auto& advertised = *reinterpret_cast<std::uint64_t*>(bytes_at(there.address(), 8).data());
  for (std::uint64_t i = 0; i < kChunks; ++i)
    std::memcpy(pair.right_memory->bytes().data() + i * kChunk, &i, sizeof i);
  Consumer consumer(advertised, pair.left_memory->bytes().data(), kChunks);
  auto stream = *ChunkStream::open({.agent = pair.left.get(),
                                    .local = pair.mine(0, kChunks),
                                    .remote = pair.theirs(0, kChunks),
                                    .advertised_on_device = &word});
  stream.wait();
  EXPECT_TRUE(stream.status().ok()) << stream.status().to_string();
  consumer.worker.join();
  EXPECT_EQ(look(advertised), kChunks | kStreamClosed);
  ASSERT_EQ(consumer.numbers.size(), kChunks);
  for (std::uint64_t i = 0; i < kChunks; ++i) EXPECT_EQ(consumer.numbers[i], i);
}

TEST(ChunkStreamTest, what_makes_no_stream_is_refused) {
  Pair pair;
  alignas(8) std::uint64_t words[2] = {};
  auto* askew = reinterpret_cast<std::uint64_t*>(reinterpret_cast<char*>(words) + 4);
  const auto refused = [&](ChunkStreamOptions options) {
    options.agent = pair.left.get();
    return ChunkStream::open(std::move(options)).code();
  };
  const auto mine = pair.mine(0, 2), theirs = pair.theirs(0, 2);
  EXPECT_EQ(refused({.local = mine, .remote = theirs}), Code::invalid_argument);
  EXPECT_EQ(refused({.local = mine, .remote = theirs, .advertised = askew}),
            Code::invalid_argument);
  device::HostDriver driver(pair.clock);
  device::Memory there = *(*driver.open(0))->allocate(64);
  auto word = *memory::DeviceWord::open(*driver.open(0), there.address());
  EXPECT_EQ(
      refused(
          {.local = mine, .remote = theirs, .advertised = words, .advertised_on_device = &word}),
      Code::invalid_argument);
  EXPECT_EQ(refused({.local = mine, .remote = pair.theirs(0, 3), .advertised = words}),
            Code::invalid_argument);
  EXPECT_EQ(refused({.local = mine, .remote = theirs, .advertised = words, .taken = words + 1}),
            Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::agent
