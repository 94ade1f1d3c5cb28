// The n-th allocation fails, for every n, while two agents live a whole life over shm and over tcp:
// each life in a process of its own. It ends without an abort and without a hang; what fails is
// `exhausted`, or ends the call as operator new does (std::bad_alloc), and what was made goes as
// ever. Those that go on after it find that nothing was lost, or know that the peer was.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include <execinfo.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/agent/agent.h>
#include <towpath/backends/messages/message_backend.h>
#include <towpath/backends/shm/shm_backend.h>
#include <towpath/core/testing/random_bytes.h>
#include <towpath/memory/borrowed.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/guarded_copy.h>

#include "failing_allocation.h"

namespace towpath {
namespace {

using agent::Agent;
using testing::survives;

enum Ending : int { not_reached = 10, well, exhausted, threw, lost, other };

constexpr std::uint64_t kBytes = 256 * 1024;
constexpr std::uint64_t kBlock = 1024;

/// Over what they speak.
struct Way {
  const backend::Registry& registry;
  const std::string backend;
  const Clock& clock;

  // A peer that is lost during a write is waited for until it can place nothing more.
  backend::Params params() const {
    if (backend != "tcp") return {};
    return {{"heartbeat_ms", "20"}, {"timeout_ms", "200"}};
  }
};

Result<std::unique_ptr<Agent>> open(const std::string& name, const Way& way) {
  TOWPATH_TRY(auto agent,
              Agent::create({.name = name, .registry = &way.registry, .clock = &way.clock}));
  TOWPATH_TRY(agent->add_backend(way.backend, way.params()));
  return agent;
}

DescriptorList blocks(const memory::Region& region) {
  DescriptorList list(MemoryKind::system);
  const std::uint64_t begin = region.descriptor().address;
  for (std::uint64_t at = 0; at < kBytes; at += 2 * kBlock)
    (void)list.add(Descriptor{.address = begin + at, .length = kBlock});
  return list;
}

Status move(Agent& near, Agent& far, TransferOp op, const memory::Region& here,
            const memory::Region& there) {
  TOWPATH_TRY(auto transfer, near.create_transfer(op, blocks(here), far.name(), blocks(there),
                                                  {.notification = Bytes(100, std::byte{7})}));
  TOWPATH_TRY(transfer.post({.timeout = std::chrono::seconds(5)}));
  while (!transfer.ended()) {
    near.progress();
    far.progress();
  }
  return transfer.status();
}

/// Two agents, one of which has met the other, and memory of both.
struct Pair {
  std::vector<std::byte> near_bytes, far_bytes;  // of the user
  std::unique_ptr<Agent> near, far;
  memory::SharedRegion here, there;
  memory::Registration mine, theirs;
};

/// Memory of the library's own, or of somebody else's, whose pages may go at any time.
enum class Owner : std::uint8_t { library, user };

Result<memory::SharedRegion> region(Owner owner, std::vector<std::byte>& bytes) {
  if (owner == Owner::library) {
    TOWPATH_TRY(auto allocated, memory::SystemRegion::allocate({.size_bytes = kBytes}));
    return memory::SharedRegion(std::move(allocated));
  }
  bytes.resize(kBytes);
  TOWPATH_TRY(auto made, memory::BorrowedRegion::create(
                             {.address = address_of(bytes.data()), .size_bytes = kBytes}));
  return memory::SharedRegion(std::move(made));
}

Result<Pair> meet(const Way& way, Owner owner) {
  Pair pair;
  TOWPATH_TRY(pair.near, open("near", way));
  TOWPATH_TRY(pair.far, open("far", way));
  TOWPATH_TRY(pair.here, region(owner, pair.near_bytes));
  TOWPATH_TRY(pair.there, region(owner, pair.far_bytes));
  TOWPATH_TRY(pair.mine, pair.near->register_region(pair.here));
  TOWPATH_TRY(pair.theirs, pair.far->register_region(pair.there));
  TOWPATH_TRY(const Bytes metadata, pair.far->metadata());
  TOWPATH_TRY(pair.near->load_metadata(metadata).status());
  return pair;
}

/// Create, register, exchange metadata, transfer, be notified, release.
Status live(const Way& way) {
  TOWPATH_TRY(Pair pair, meet(way, Owner::library));
  for (const TransferOp op : {TransferOp::write, TransferOp::read})
    TOWPATH_TRY(move(*pair.near, *pair.far, op, *pair.here, *pair.there));
  for (int i = 0; i < 10; ++i) pair.far->progress();
  (void)pair.far->take_notifications();
  TOWPATH_TRY(pair.mine.release());
  return pair.theirs.release();
}

/// Speaks and writes, and goes on when a call was thrown out of.
class Survivor {
 public:
  explicit Survivor(Pair& pair) : pair_(pair) { said_.reserve(100); }

  void say(const char* text) {
    Status said;
    const bool returned =
        survives([&] { said = pair_.near->notify("far", as_bytes(std::string_view(text))); });
    if (returned && said.ok()) said_.emplace_back(text);
    is_lost_ = is_lost_ || said.code() == Code::peer_lost;
  }
  /// `text` is its notification. What is done has all of its bytes there.
  void write(const char* text) {
    agent::Transfer transfer;
    fill_with_random_bytes(pair_.near_bytes, ++fills_);
    (void)survives([&] {
      const ConstByteSpan bytes = as_bytes(std::string_view(text));
      auto made = pair_.near->create_transfer(TransferOp::write, blocks(*pair_.here), "far",
                                              blocks(*pair_.there),
                                              {.notification = Bytes(bytes.begin(), bytes.end())});
      if (!made.ok()) return;
      transfer = *std::move(made);
      (void)transfer.post({.timeout = std::chrono::seconds(2)});
    });
    while (transfer.state() == TransferState::active ||
           transfer.state() == TransferState::draining) {
      (void)survives([&] { (void)transfer.wait(Duration(0)); });
      progress();
    }
    if (transfer.outcome() == Outcome::done) said_.emplace_back(text);
    is_wrong_ = is_wrong_ || (transfer.outcome() == Outcome::done && !are_blocks_alike());
    is_lost_ = is_lost_ || transfer.outcome() == Outcome::peer_lost;
    timed_out_ = timed_out_ || transfer.outcome() == Outcome::timed_out;
  }
  void progress() {
    (void)survives([&] { pair_.near->progress(); });
    (void)survives([&] { pair_.far->progress(); });
  }
  /// When there is memory again: all that was taken has arrived, once, and nothing else.
  int judge(std::int64_t n, const Clock& clock) {
    say("last");
    std::vector<std::string> heard;
    const Instant end = clock.now() + std::chrono::seconds(3);
    while (!is_lost_ && heard.size() < said_.size() && clock.now() < end) {
      progress();
      is_lost_ = pair_.near->peer("far")->lost;
      for (const auto& note : pair_.far->take_notifications())
        heard.emplace_back(as_text(note.message));
    }
    if (is_lost_ && !is_wrong_) return lost;
    if (heard == said_ && said_.back() == "last" && !timed_out_ && !is_wrong_) return well;
    std::cerr << "allocation " << n << (timed_out_ ? " timed out" : "")
              << (is_wrong_ ? " done with wrong bytes" : "") << ", heard:";
    for (const std::string& text : heard) std::cerr << " " << text;
    std::cerr << ", said:";
    for (const std::string& text : said_) std::cerr << " " << text;
    std::cerr << "\n";
    return other;
  }

 private:
  bool are_blocks_alike() const {
    for (std::size_t at = 0; at < kBytes; at += 2 * kBlock)
      if (std::memcmp(&pair_.near_bytes[at], &pair_.far_bytes[at], kBlock) != 0) return false;
    return true;
  }

  Pair& pair_;
  std::uint64_t fills_ = 0;
  std::vector<std::string> said_;
  bool is_wrong_ = false;
  bool is_lost_ = false;
  bool timed_out_ = false;
};

/// Where it was when it had to end.
void print_stack(int signal) {
  void* frames[64];
  const int count = ::backtrace(frames, 64);
  ::backtrace_symbols_fd(frames, count, STDERR_FILENO);
  (void)::signal(signal, SIG_DFL);
  (void)::raise(signal);
}

void set_watchdog() {
  (void)::signal(SIGALRM, print_stack);
  (void)::signal(SIGSEGV, print_stack);
  (void)::signal(SIGABRT, print_stack);
  ::alarm(60);  // what hangs must end
}

int live_with_fault_at(std::int64_t n, const Way& way) {
  set_watchdog();
  Status status;
  testing::fail_allocation(n);
  const bool thrown = !survives([&] { status = live(way); });
  const bool is_reached = testing::stop_failing();
  if (thrown) return threw;
  if (status.ok()) return is_reached ? well : not_reached;
  if (status.code() == Code::exhausted) return exhausted;
  if (status.code() == Code::peer_lost) return lost;
  std::cerr << "allocation " << n << ": " << status.to_string() << "\n";
  return other;
}

int go_on_after_fault_at(std::int64_t n, const Way& way) {
  set_watchdog();
  Pair pair = meet(way, Owner::user).value();
  Survivor survivor(pair);
  testing::fail_allocation(n);
  survivor.write("first");
  for (const auto& [said, written] : {std::pair("a", "b"), {"c", "d"}}) {
    survivor.say(said);
    survivor.say("and");
    survivor.write(written);
  }
  for (int i = 0; i < 10; ++i) survivor.progress();
  if (!testing::stop_failing()) return not_reached;
  return survivor.judge(n, way.clock);
}

class AllocationFaultsTest : public ::testing::TestWithParam<const char*> {
 protected:
  AllocationFaultsTest() {
    EXPECT_TRUE(registry_.add(backends::shm::shm_type()).ok());
    EXPECT_TRUE(registry_.add(backends::messages::tcp_type()).ok());
  }
  /// A process for each allocation that `life` makes.
  void try_all(int (*life)(std::int64_t, const Way&)) {
    int endings[other + 1] = {};
    for (std::int64_t n = 0;; ++n) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(life(n, {registry_, GetParam(), clock_}));
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_LT(n, 100'000);
      if (!WIFEXITED(status)) {
        ADD_FAILURE() << "allocation " << n << ": ended by signal " << WTERMSIG(status);
        continue;
      }
      const int ending = WEXITSTATUS(status);
      if (ending == not_reached) break;
      EXPECT_TRUE(ending >= well && ending <= lost) << "allocation " << n << ": exit " << ending;
      if (ending <= other) ++endings[ending];
    }
    std::cout << endings[well] << " went well, " << endings[exhausted] << " exhausted, "
              << endings[threw] << " thrown, " << endings[lost] << " lost their peer\n";
    EXPECT_GT(endings[well] + endings[exhausted] + endings[threw], 100) << "nothing was tried";
  }

  const sys::SystemClock clock_;
  backend::Registry registry_;
};

INSTANTIATE_TEST_SUITE_P(Backends, AllocationFaultsTest, ::testing::Values("shm", "tcp"),
                         [](const auto& backend) { return std::string(backend.param); });

TEST_P(AllocationFaultsTest, every_allocation_of_a_life_may_fail) { try_all(live_with_fault_at); }

// Its add() cannot throw.
TEST(GuardedCopyFaultsTest, without_memory_an_extent_is_a_faulty_one) {
  bool is_reached = true;
  for (std::int64_t n = 0; is_reached; ++n) {
    std::array<std::byte, 8> from{std::byte{1}}, into{std::byte{2}};
    sys::GuardedCopy guard;
    testing::fail_allocation(n);
    guard.begin(sys::GuardedCopy::Direction::out_of_memory);
    guard.add(
        {.own = into.data(), .address = address_of(from.data()), .length = from.size(), .tag = 7});
    const auto faulty = guard.finish();
    is_reached = testing::stop_failing();
    EXPECT_EQ(faulty.size(), is_reached ? 1U : 0U);
    EXPECT_EQ(into[0], std::byte{is_reached ? std::uint8_t{0} : std::uint8_t{1}});
    ASSERT_LT(n, 100);
  }
}

TEST_P(AllocationFaultsTest, who_goes_on_has_lost_nothing) { try_all(go_on_after_fault_at); }

}  // namespace
}  // namespace towpath
