// Members that end on their way to a gathering, where another member is on another host: all its
// words are a test's.
#include <functional>
#include <latch>
#include <memory>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/shmem/context.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/remote.h>
#include <towpath/shmem/testing/pes.h>

namespace towpath::shmem {
namespace {

/// The way to a host that takes everything and says nothing.
class SilentWay final : public Remote {
 public:
  explicit SilentWay(std::function<void()> when_quiet) : when_quiet_(std::move(when_quiet)) {}

  Status start(const Here&) override { return {}; }
  Status put(RemoteAddress, ConstByteSpan) override { return {}; }
  Status get(RemoteAddress, ByteSpan) override { return {}; }
  bool is_whole(ConstByteSpan, const Condition& condition) noexcept override { return condition(); }
  Result<std::uint64_t> change(RemoteAddress, const Change&) override { return std::uint64_t{0}; }
  Status post(RemoteAddress, const Change&) override { return {}; }
  void quiet() noexcept override { when_quiet_(); }
  Status arrive(const ArrivalNews&, std::span<const std::uint32_t>) override { return {}; }
  Result<std::uint64_t> take_slot() override { return std::uint64_t{0}; }
  void leave_slot(std::uint32_t, std::uint32_t) noexcept override {}
  void end_all(int) noexcept override {}
  void close(PeState) noexcept override {}

 private:
  const std::function<void()> when_quiet_;
};

/// PEs 0 and 1 of one host, PE 2 of another.
class GatherTest : public ::testing::Test {
 protected:
  static constexpr Call kBarrier{.kind = CallKind::barrier};

  /// As if it ran in this process.
  void begin(std::uint32_t pe) {
    job_.pe(pe).pid = static_cast<std::uint32_t>(::getpid());
    job_.pe(pe).state = static_cast<std::uint32_t>(PeState::running);
  }
  /// To the world's first barrier.
  void arrive(std::uint32_t pe) {
    MemberLine& line = job_.line(0, pe, 0);
    line.call = kBarrier;
    (void)job_.team(0).barrier.arrive(digest_of(kBarrier), 3);
    line.arrived = 1;
  }
  Result<Context> open(
      int pe, std::function<void()> when_quiet = [] {}) {
    Bootstrap bootstrap = testing::bootstrap_for(files_, pe);
    bootstrap.hosts = {0, 0, 2};
    bootstrap.remote = std::make_shared<SilentWay>(std::move(when_quiet));
    return Context::open(std::move(bootstrap), {.timeouts = {.to_wait = std::chrono::seconds(5)}});
  }

  const JobFiles files_ = *create_job({.pes = 3, .heap_bytes = testing::kTestHeap});
  const JobView job_ = *JobView::map(files_.control.get());
};

// PE 2 may have come to its own host, and gone on.
TEST_F(GatherTest, a_member_that_comes_and_ends_before_it_has_brought_the_others_is_named) {
  for (const std::uint32_t pe : {0U, 2U}) begin(pe);
  auto context = open(1);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  arrive(0);
  job_.mark(0, PeState::lost);
  const Status lost = context->barrier();
  EXPECT_EQ(lost.code(), Code::peer_lost) << lost.to_string();
  EXPECT_NE(lost.to_string().find("PE 0 (process"), std::string::npos) << lost.to_string();
}

TEST_F(GatherTest, those_that_were_brought_are_not_missed_with_the_one_that_brought_them) {
  for (const std::uint32_t pe : {0U, 2U}) begin(pe);
  auto context = open(1);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  for (const std::uint32_t pe : {0U, 2U}) arrive(pe);
  job_.mark(0, PeState::lost);
  EXPECT_TRUE(context->barrier().ok());
}

// What it has put must be in place first, and that may take long.
TEST_F(GatherTest, a_member_that_ends_on_its_way_is_named) {
  begin(2);
  std::latch is_open(1), has_ended(1), is_named(1);
  const std::jthread other([&] {
    const auto end = [&] {
      job_.mark(0, PeState::lost);
      has_ended.count_down();
      is_named.wait();
    };
    auto context = open(0, end);
    is_open.wait();
    (void)context->barrier();
  });
  auto context = open(1);
  is_open.count_down();
  arrive(2);
  has_ended.wait();
  const Status lost = context->barrier();
  is_named.count_down();
  EXPECT_EQ(lost.code(), Code::peer_lost) << lost.to_string();
  EXPECT_NE(lost.to_string().find("PE 0 (process"), std::string::npos) << lost.to_string();
}

}  // namespace
}  // namespace towpath::shmem
