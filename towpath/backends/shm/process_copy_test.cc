#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/backend/slice_runner.h>
#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/shm/options.h>
#include <towpath/backends/shm/process_copy.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::shm {
namespace {

using namespace backend;

constexpr std::uint64_t kBlock = 64 * 1024;
constexpr std::uint64_t kBlocks = 40;  // five slices
constexpr std::uint64_t kAllBlocks = kBlock * kBlocks;

struct OneMemory : Memory {};

/// Copies between two pools of this process.
class ProcessCopyTest : public ::testing::TestWithParam<std::size_t>, private SliceMover {
 protected:
  ProcessCopyTest() : copy_(clock_, GetParam()), runner_(events_, *this) {
    for (std::uint64_t i = 0; i < kBlocks; ++i)
      segments_.push_back({.local = &memory_,
                           .remote = &memory_,
                           .local_address = address_of(here_.data()) + i * kBlock,
                           .remote_address = address_of(there_.data()) + i * kBlock,
                           .length = kBlock});
  }

  Status admit(const Request&) override { return {}; }
  Status move(SliceTask& task) override {
    std::uint64_t budget = kSliceBytes;
    const auto all = copy_.move(program_, task, budget);
    took_all_ = took_all_ && all.ok() && *all;
    return all.status();
  }

  void fill(std::byte round) {
    for (std::uint64_t i = 0; i < kAllBlocks; ++i)
      there_.data()[i] = static_cast<std::byte>(i * 7) ^ round;
  }

  sys::SystemClock clock_;
  testing::RecordingEvents events_;
  sys::Mapping here_ = *sys::Mapping::anonymous(kAllBlocks);
  sys::Mapping there_ = *sys::Mapping::anonymous(kAllBlocks);
  SocketToken token_{3, 4};
  PeerProgram program_{
      .pid = ::getpid(), .token_address = address_of(token_.data()), .token = token_};
  OneMemory memory_;
  std::vector<Segment> segments_;
  ProcessCopy copy_;
  SliceRunner runner_;
  bool took_all_ = true;
};

TEST_P(ProcessCopyTest, all_bytes_arrive_whoever_copies_them) {
  const auto operation = runner_.make_operation();
  for (std::uint8_t round = 0; round < 50; ++round) {  // so many that either way is tried
    fill(std::byte{round});
    operation->post({TransferOp::read, nullptr, segments_});
    while (runner_.progress()) continue;
    ASSERT_TRUE(events_.last(*operation).status.ok());
    ASSERT_EQ(std::memcmp(here_.data(), there_.data(), kAllBlocks), 0);
    std::memset(there_.data(), 0, kAllBlocks);
    operation->post({TransferOp::write, nullptr, segments_});
    while (runner_.progress()) continue;
    ASSERT_EQ(events_.last(*operation).bytes, kAllBlocks);
    ASSERT_EQ(std::memcmp(here_.data(), there_.data(), kAllBlocks), 0);
  }
  EXPECT_TRUE(took_all_);
  EXPECT_TRUE(copy_.shortage().ok());
}

// A hole in each of these blocks, in parts of several threads: each is named, with what arrived.
TEST_P(ProcessCopyTest, what_is_not_mapped_is_named_and_the_rest_arrives) {
  constexpr std::array<std::uint64_t, 4> kHoles{0, 6, 7, 21};
  constexpr std::uint64_t kBefore = 4096;
  fill({});
  const Bytes expected(there_.data(), there_.data() + kAllBlocks);
  for (const std::uint64_t hole : kHoles)
    ASSERT_EQ(::mprotect(there_.data() + hole * kBlock + kBefore, 4096, PROT_NONE), 0);
  const auto operation = runner_.make_operation();
  for (int round = 0; round < 20; ++round) {
    std::memset(here_.data(), 0, kAllBlocks);
    operation->post({TransferOp::read, nullptr, segments_});
    while (runner_.progress()) continue;
    const auto& last = events_.last(*operation);
    ASSERT_EQ(last.failures.size(), kHoles.size());
    for (std::size_t i = 0; i < kHoles.size(); ++i) {
      EXPECT_EQ(last.failures[i].segment, kHoles[i]);
      EXPECT_EQ(last.failures[i].bytes, kBefore);
      EXPECT_EQ(last.failures[i].status.code(), Code::out_of_range);
    }
    ASSERT_EQ(last.bytes, kAllBlocks - kHoles.size() * (kBlock - kBefore));
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      const std::uint64_t there =
          std::ranges::find(kHoles, block) != kHoles.end() ? kBefore : kBlock;
      ASSERT_EQ(std::memcmp(here_.data() + block * kBlock, &expected[block * kBlock], there), 0);
    }
  }
  EXPECT_FALSE(took_all_);
}

TEST_P(ProcessCopyTest, what_is_read_of_another_program_does_not_count) {
  fill({});
  const auto operation = runner_.make_operation();
  const auto read = [&] {
    operation->post({TransferOp::read, nullptr, segments_});
    while (runner_.progress()) continue;
    return events_.last(*operation);
  };
  token_ = {5, 6};
  const auto other = read();
  EXPECT_EQ(other.status.code(), Code::peer_lost) << other.status.to_string();
  EXPECT_EQ(other.bytes, 0u);
  const sys::Mapping nothing = *sys::Mapping::anonymous(4096);
  ASSERT_EQ(::mprotect(nothing.data(), 4096, PROT_NONE), 0);
  program_.token_address = address_of(nothing.data());
  EXPECT_EQ(read().status.code(), Code::peer_lost);
  program_.token_address = 0;  // of a peer that does not say
  EXPECT_TRUE(read().status.ok());
}

INSTANTIATE_TEST_SUITE_P(Threads, ProcessCopyTest, ::testing::Values(1, 2, 3),
                         [](const auto& threads) { return std::to_string(threads.param); });

TEST(ShmOptionsTest, threads_that_are_described_are_those_where_nothing_is_said) {
  const std::vector<ParamInfo> described = BackendOptions::describe();
  const auto threads = std::ranges::find(described, "copy_threads", &ParamInfo::name);
  ASSERT_NE(threads, described.end());
  const auto nothing_said = BackendOptions::parse({});
  ASSERT_TRUE(nothing_said.ok());
  EXPECT_EQ(threads->default_value, std::to_string(nothing_said->copy_threads));
}

}  // namespace
}  // namespace towpath::backends::shm
