// Ways to device memory: which one is taken, by the times of the transfers before. Backends say
// what a test wants, the clock stands still until told: nothing here depends on how fast a machine
// is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/agent.h>
#include <towpath/agent/path_times.h>
#include <towpath/agent/testing/scripted_backend.h>
#include <towpath/core/format.h>
#include <towpath/memory/borrowed.h>
#include <towpath/telemetry/log.h>

namespace towpath::agent {
namespace {

using std::chrono::microseconds;
using ::testing::HasSubstr;

constexpr std::uint64_t kBlock = 4096;

TransferClass reads_of(std::uint64_t bytes, std::uint64_t descriptors = 1) {
  return TransferClass::of(TransferOp::read, MemoryKind::device, MemoryKind::disk, bytes,
                           descriptors);
}

TEST(PathTimesTest, transfers_of_about_a_size_are_alike) {
  EXPECT_EQ(reads_of(kBlock), reads_of(2 * kBlock - 1));
  EXPECT_NE(reads_of(kBlock), reads_of(2 * kBlock));
  EXPECT_NE(reads_of(kBlock), reads_of(kBlock, 16)) << "in pieces";
  EXPECT_EQ(to_string(reads_of(5 * kBlock, 5)),
            "read device <- disk, from 16 KiB, in pieces from 4 KiB");
  EXPECT_EQ(reads_of(0, 0).least_bytes, 1u);
}

TEST(PathTimesTest, times_are_advertised_for_the_size_that_is_asked_for) {
  PathTimes times;
  EXPECT_TRUE(times.known(reads_of(kBlock), 1, kBlock, 2).wants_trial);
  const PathTimes::Trial trial{.instance = 1, .bytes = 6144, .took = microseconds(60)};
  EXPECT_FALSE(times.note(reads_of(kBlock), trial, 2));
  EXPECT_EQ(times.known(reads_of(kBlock), 1, 6144, 2).time, microseconds(60));
  EXPECT_EQ(times.known(reads_of(kBlock), 1, 4096, 2).time, microseconds(40));
  EXPECT_EQ(times.known(reads_of(kBlock), 1, 6144, 2).spread, microseconds(0)) << "of one trial";
  EXPECT_TRUE(
      times.note(reads_of(kBlock), {.instance = 1, .bytes = 6144, .took = microseconds(66)}, 2))
      << "the last one";
  EXPECT_EQ(times.known(reads_of(kBlock), 1, 6144, 2).spread, microseconds(6));
  EXPECT_EQ(times.known(reads_of(kBlock), 1, 4096, 2).spread, microseconds(4));
  EXPECT_FALSE(times.known(reads_of(kBlock), 1, kBlock, 2).wants_trial);
  EXPECT_TRUE(times.known(reads_of(kBlock), 0, kBlock, 2).wants_trial) << "another way";
  EXPECT_FALSE(times.known(reads_of(kBlock), 0, kBlock, 2).time);
  EXPECT_EQ(times.fastest(reads_of(kBlock)), 1u);
  EXPECT_FALSE(times.fastest(reads_of(64 * kBlock)));
}

TEST(PathTimesTest, what_is_kept_of_endless_kinds_of_transfers_is_bounded) {
  PathTimes times;
  TransferClass alike;
  for (std::uint64_t i = 0; i < PathTimes::kMaxClasses + 10; ++i) {
    alike.least_bytes = i;
    times.note(alike, {.instance = 0, .bytes = 1, .took = microseconds(1)}, 1);
  }
  EXPECT_FALSE(times.fastest(alike));
  EXPECT_FALSE(times.known(alike, 0, 1, 1).wants_trial) << "it would be tried for ever";
}

/// "straight" declares that it costs less than "staged"; a test says what they do cost.
class MeasuredPathsTest : public ::testing::Test {
 protected:
  void open(MemoryKind kind = MemoryKind::device, unsigned trials = 3) {
    kind_ = kind;
    for (Script* script : {&straight_, &staged_}) {
      script->can.pairs = {{.local = kind, .remote = kind, .to_self = true}};
      script->is_eager = false;
    }
    straight_.can.cost.latency = microseconds(10);
    staged_.can.cost.latency = microseconds(20);
    ASSERT_TRUE(registry_.add(scripted_type("straight", straight_)).ok());
    ASSERT_TRUE(registry_.add(scripted_type("staged", staged_)).ok());
    agent_ = *Agent::create({.name = "one",
                             .registry = &registry_,
                             .clock = &clock_,
                             .log = &log_,
                             .path_trials = trials});
    for (const char* backend : {"straight", "staged"})
      ASSERT_TRUE(agent_->add_backend(backend).ok());
    const auto region = memory::BorrowedRegion::create(
        {.kind = kind, .address = kBlock, .size_bytes = 64 * kBlock});
    registration_ = *agent_->register_region(*region);
  }

  DescriptorList blocks(std::uint64_t count) const {
    DescriptorList list(kind_);
    EXPECT_TRUE(list.add(StridedDescriptor{kBlock, kBlock, kBlock, count, 0}).ok());
    return list;
  }

  /// Over which backend a transfer went, which took so long there.
  std::string move(std::uint64_t count = 4, const std::vector<std::string>& asked = {}) {
    auto transfer = agent_->create_transfer(TransferOp::read, blocks(count), "one", blocks(count),
                                            {.backends = asked});
    EXPECT_TRUE(transfer.ok()) << transfer.status().to_string();
    EXPECT_TRUE(transfer->post().ok());
    const bool is_straight = !straight_.active.empty();
    clock_.advance(is_straight ? straight_takes_ : staged_takes_);
    Script& script = is_straight ? straight_ : staged_;
    script.active.front()->complete(is_straight ? straight_ends_ : Status());
    EXPECT_TRUE(transfer->ended());
    return is_straight ? "straight" : "staged";
  }
  std::vector<std::string> moves(int count) {
    std::vector<std::string> over;
    for (int i = 0; i < count; ++i) over.push_back(move());
    return over;
  }
  Explanation explain() {
    return *agent_->explain(TransferOp::read, *agent_->prepare(blocks(4)),
                            *agent_->prepare_remote("one", blocks(4)));
  }

  MemoryKind kind_ = MemoryKind::device;
  ManualClock clock_;
  telemetry::CollectingSink log_;
  backend::Registry registry_;
  Script straight_, staged_;
  Duration straight_takes_ = microseconds(50);
  Duration staged_takes_ = microseconds(30);
  Status straight_ends_;
  std::unique_ptr<Agent> agent_;
  memory::Registration registration_;
};

TEST_F(MeasuredPathsTest, each_way_is_tried_and_then_the_fastest_is_taken) {
  open();
  const std::vector<std::string> tried = moves(6);
  EXPECT_EQ(tried.front(), "straight") << "what declares to cost least is tried first";
  EXPECT_EQ(std::ranges::count(tried, "straight"), 3);
  EXPECT_EQ(moves(3), std::vector<std::string>(3, "staged")) << "whatever was declared";
  staged_takes_ = microseconds(500);
  EXPECT_EQ(moves(3), std::vector<std::string>(3, "staged")) << "what was chosen stays";
  EXPECT_EQ(log_.count_of("a path to device memory was measured"), 2u) << "once for each";
}

TEST_F(MeasuredPathsTest, the_margin_of_an_estimate_is_the_spread_of_the_trials) {
  open();
  EXPECT_EQ(explain().chosen()->margin, Duration(0)) << "nothing was tried";
  std::vector<Duration> took;
  for (int i = 0; i < 6; ++i) {
    staged_takes_ = microseconds(20 + i);
    if (move() == "staged") took.push_back(staged_takes_);
  }
  ASSERT_EQ(took.size(), 3U);
  const Explanation advertised = explain();
  EXPECT_EQ(advertised.chosen()->backend, "staged");
  EXPECT_EQ(advertised.chosen()->estimate, took.front());
  EXPECT_EQ(advertised.chosen()->margin, took.back() - took.front());
}

TEST_F(MeasuredPathsTest, each_size_has_its_own_choice) {
  open();
  moves(6);
  staged_takes_ = microseconds(90);
  for (int i = 0; i < 6; ++i) move(64);
  EXPECT_EQ(move(64), "straight");
  EXPECT_EQ(move(4), "staged");
}

TEST_F(MeasuredPathsTest, a_way_that_fails_whenever_it_is_tried_is_left) {
  open();
  straight_takes_ = microseconds(1);
  straight_ends_ = error(Code::unavailable, "no");
  moves(6);
  EXPECT_EQ(move(), "staged");
  EXPECT_THAT(explain().to_string(), HasSubstr("straight: failed when it was tried"));
}

TEST_F(MeasuredPathsTest, cancelled_transfers_report_nothing_of_their_way) {
  open();
  straight_ends_ = error(Code::cancelled, "stop");
  EXPECT_EQ(moves(9), std::vector<std::string>(9, "straight"));
}

TEST_F(MeasuredPathsTest, explain_says_what_is_known_and_changes_nothing) {
  open();
  for (int i = 0; i < 9; ++i) (void)explain();
  EXPECT_THAT(explain().to_string(), HasSubstr("* straight: is tried, so that its time is known"));
  EXPECT_THAT(explain().to_string(), HasSubstr("+ staged: is tried next"));
  moves(6);
  const Explanation advertised = explain();
  EXPECT_EQ(advertised.chosen()->backend, "staged");
  EXPECT_TRUE(advertised.chosen()->measured);
  EXPECT_EQ(advertised.chosen()->estimate, microseconds(30));
  EXPECT_THAT(advertised.to_string(),
              HasSubstr("* staged: was fastest; nowhere; about 30 us measured"));
  EXPECT_THAT(advertised.to_string(),
              HasSubstr("+ straight: was slower; nowhere; about 50 us measured"));
}

TEST_F(MeasuredPathsTest, what_was_asked_for_is_taken_and_counts_as_a_trial) {
  open();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(move(4, {"straight"}), "straight");
  EXPECT_EQ(moves(4), std::vector<std::string>(4, "staged"));
}

TEST_F(MeasuredPathsTest, host_memory_goes_by_what_is_declared) {
  open(MemoryKind::system);
  EXPECT_EQ(moves(9), std::vector<std::string>(9, "straight"));
  EXPECT_THAT(explain().to_string(), HasSubstr("* straight: costs least"));
}

TEST_F(MeasuredPathsTest, without_trials_so_does_device_memory) {
  open(MemoryKind::device, 0);
  EXPECT_EQ(moves(9), std::vector<std::string>(9, "straight"));
}

}  // namespace
}  // namespace towpath::agent
