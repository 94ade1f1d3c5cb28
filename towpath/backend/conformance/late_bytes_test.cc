// Conformance: once a transfer has ended, or memory was released, nothing lands any more, however
// it ended and whatever the peer, another process, was in.
//
// A round is one cell of a table, drawn by its seed: way of ending x extent x what the peer is in.
// Afterwards both sides' memory is poisoned, the peer goes on, and the poison is watched: for
// 5 ms, in every 97th round for 2 s. `--soak-rounds=N` and `--soak-seed=S` make more rounds,
// and others (`./dev soak`); a line on standard output then says how often each cell came.
#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include <towpath/backend/conformance/growth.h>
#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/survivor.h>
#include <towpath/core/testing/seeds.h>
#include <towpath/run/deadline.h>
#include <towpath/run/eventually.h>

namespace towpath::backend::conformance {
namespace {

constexpr std::uint64_t kPool = 4 * kMiB;
constexpr auto kQuiesceTimeout = std::chrono::milliseconds(100);
/// Of so many rounds one is watched for longer: no factor of the number of cells, or some never
/// are.
constexpr std::uint64_t kWatchedRounds = 97;
constexpr auto kWatched = std::chrono::seconds(2);
/// A third of the cells, where nobody asks for more.
constexpr std::uint64_t kUsualRounds = seeds_of(42);

/// How this side's transfer ends; or it releases memory to which the peer writes.
enum class Way : std::uint8_t { completes, cancelled, timed_out, released };
enum class PeerState : std::uint8_t { running, stopped, killed, frozen, closed, deregistered };

struct Cell {
  static constexpr std::array<std::uint64_t, 3> kExtents = {4 * kKiB, 64 * kKiB, kMiB};
  static constexpr std::uint64_t kPeers = 6, kWays = 7;
  static constexpr std::uint64_t kCount = kPeers * kExtents.size() * kWays;
  static constexpr std::uint64_t kStride = 47;  // has no factor of theirs: neighbours are unlike

  static std::uint64_t index_of(std::uint64_t seed) { return seed * kStride % kCount; }
  explicit Cell(std::uint64_t seed) {
    std::uint64_t index = index_of(seed);
    peer = static_cast<PeerState>(index % kPeers);
    index /= kPeers;
    extent_bytes = kExtents[index % kExtents.size()];
    index /= kExtents.size();
    way = static_cast<Way>(std::min<std::uint64_t>(index / 2, 3));
    op = index % 2 == 0 ? TransferOp::read : TransferOp::write;
  }
  bool stands_still() const { return peer == PeerState::stopped || peer == PeerState::frozen; }

  Way way = Way::completes;
  TransferOp op = TransferOp::read;
  std::uint64_t extent_bytes = 0;
  PeerState peer = PeerState::running;
};

/// Both sides: an agent here with a pool, and one in another process.
class Sides {
 public:
  Sides(const Candidate& candidate, const Pairing& pairing)
      : peer(candidate, {.name = "far", .store = pairing.far, .pool_bytes = kPool}),
        registry_(candidate.make_registry()) {
    auto made = make_agent(candidate, registry_, clock,
                           {.name = "near", .quiesce_timeout = kQuiesceTimeout});
    auto memory_made = TestMemory::make(pairing.near, kPool);
    ready = made.ok() && memory_made.ok();
    EXPECT_TRUE(ready) << made.status().to_string();
    if (!ready) return;
    agent = *std::move(made);
    memory = *std::move(memory_made);
  }

  /// Metadata go both ways. False: the peer is not what it was.
  bool meet() {
    if (!registration.is_registered()) {
      auto made = agent->register_region(memory.region());
      EXPECT_TRUE(made.ok()) << made.status().to_string();
      if (!made.ok()) return false;
      registration = *std::move(made);
    }
    const Progress helper(*agent);  // the peer may wait for the end of what was there before
    return peer.register_again() && agent->load_metadata(peer.metadata()).ok() &&
           peer.load_metadata(*agent->metadata());
  }
  Result<agent::Transfer> make(const Cell& cell) const {
    const std::uint64_t each = cell.extent_bytes;
    const auto extents = strided({.length = each, .stride = each, .count = kPool / each});
    return agent->create_transfer(cell.op, list_of(extents, memory), "far",
                                  list_of(extents, peer.region()));
  }
  /// Another thread that makes progress.
  class Progress {
   public:
    explicit Progress(agent::Agent& agent)
        : thread_([&agent](const std::stop_token& stop) {
            while (!stop.stop_requested())
              if (!agent.progress()) agent.wait_for_work(std::chrono::milliseconds(1));
          }) {}

   private:
    std::jthread thread_;
  };
  void run_for(Duration time, bool sleeps) const {
    const auto end = run::Deadline::after(clock, time);
    while (!end.expired(clock))
      if (!agent->progress() && sleeps) agent->wait_for_work(std::chrono::milliseconds(1));
  }

  sys::SystemClock clock;
  PeerProcess peer;
  TestMemory memory;
  std::unique_ptr<agent::Agent> agent;
  memory::Registration registration;
  bool ready = false;

 private:
  Registry registry_;
};

/// One round. Ok: whatever happened was in order.
class Round {
 public:
  Round(Sides& sides, std::uint64_t seed, std::uint64_t most_late)
      : sides_(sides), cell_(seed), seed_(seed), random_(seed), most_late_(most_late) {}

  /// How the transfer ended, or what release() said first; nothing: there was no way to begin.
  std::optional<std::string> run() {
    lay_out();
    std::optional<agent::Transfer> mine;
    if (cell_.way == Way::released) {
      if (!sides_.peer.keep_writing("near", sides_.memory.region()->descriptor(),
                                    cell_.extent_bytes))
        return std::nullopt;
    } else {
      auto made = sides_.make(cell_);
      if (!made.ok() || !made->post({.timeout = limit(), .notification = {}}).ok())
        return std::nullopt;
      mine = *std::move(made);
    }
    sides_.run_for(moment(), false);
    act_on_peer();
    sides_.run_for(moment(), false);
    const std::string outcome = mine ? end(*mine) : release();
    is_done_ = mine && mine->outcome() == Outcome::done;
    expect_quiesced();
    return outcome;
  }
  /// Bytes that landed late where the peer's standing still allowed it; all others are failures.
  std::uint64_t late_bytes() const noexcept { return late_; }
  /// Whether a peer is there for another round.
  bool leaves_a_peer() const {
    return cell_.peer != PeerState::killed && cell_.peer != PeerState::closed;
  }

 private:
  /// Of 30 us to 4 ms, short ones as often as long ones.
  Duration moment() {
    const std::uint64_t most = std::uint64_t{32} << random_() % 8;
    return std::chrono::microseconds(random_() % most);
  }
  Duration limit() {
    return cell_.way == Way::timed_out ? moment() + std::chrono::microseconds(1)
                                       : Duration(std::chrono::seconds(30));
  }
  bool writes() const { return cell_.way != Way::released && cell_.op == TransferOp::write; }
  void lay_out() {
    static const Bytes kPattern = random_bytes(2, kPool);
    static const Bytes kElse(kPool);
    sides_.memory.write(writes() ? kPattern : kElse);
    EXPECT_TRUE(sides_.peer.write_pool(writes() ? kElse : kPattern));
  }
  void act_on_peer() {
    switch (cell_.peer) {
      case PeerState::running: return;
      case PeerState::stopped: sides_.peer.stop(); return;
      case PeerState::killed: sides_.peer.kill_now(); return;
      case PeerState::frozen: {
        const Status frozen = sides_.peer.freeze();
        EXPECT_TRUE(frozen.ok()) << frozen.to_string();
        return;
      }
      case PeerState::closed:
      case PeerState::deregistered: take_back_peer();
    }
  }
  /// The peer's memory is its own again once it says so: from here on nothing lands there.
  void take_back_peer() {
    const Sides::Progress helper(*sides_.agent);
    const bool closes = cell_.peer == PeerState::closed;
    if (!(closes ? sides_.peer.close_agent() : sides_.peer.deregister())) return;
    poison_peer();
    sides_.run_for(std::chrono::milliseconds(1), true);
    expect_peer_poison();
  }
  std::string end(agent::Transfer& transfer) {
    if (cell_.way == Way::cancelled) transfer.cancel();
    if (cell_.way == Way::completes && cell_.stands_still()) {
      sides_.run_for(10 * moment(), true);
      sides_.peer.go_on();
    }
    EXPECT_TRUE(run_until({sides_.agent.get()}, [&] { return transfer.ended(); }))
        << "it never ended";
    const Outcome outcome = transfer.outcome();
    if (outcome == Outcome::done) expect_all_is_there();
    if (cell_.way == Way::completes && cell_.peer == PeerState::running) {
      EXPECT_EQ(outcome, Outcome::done) << transfer.status().to_string();
    }
    return std::string(name_of(outcome));
  }
  void expect_all_is_there() {
    Bytes there(kPool);
    if (peer_was_poisoned_ || !sides_.peer.read_pool(there)) return;
    EXPECT_TRUE(sides_.memory.read() == there) << "done, and the sides differ";
  }
  std::string release() {
    memory::Registration& registration = sides_.registration;
    Status released = registration.release();
    if (released.ok()) return "released";
    if (!cell_.stands_still()) {  // dying takes a busy machine its time
      EXPECT_TRUE(run::eventually([&] { return registration.release().ok(); }))
          << released.to_string();
      return "released later";
    }
    EXPECT_EQ(released.code(), Code::not_ready) << released.to_string();
    EXPECT_NE(released.to_string().find("far"), std::string::npos) << released.to_string();
    EXPECT_TRUE(registration.is_registered());
    sides_.peer.go_on();
    EXPECT_TRUE(run::eventually([&] { return registration.release().ok(); }));
    return "refused";
  }
  void poison_peer() {
    static const Bytes kPoisoned(kPool, kPoison);
    peer_was_poisoned_ = sides_.peer.write_pool(kPoisoned) || peer_was_poisoned_;
  }
  void expect_peer_poison(std::uint64_t most_late = 0) {
    Bytes there(kPool);
    if (!peer_was_poisoned_ || !sides_.peer.read_pool(there)) return;
    late_ = late_in(there);
    EXPECT_LE(late_, most_late) << "bytes landed late, in far's memory";
  }
  static std::uint64_t late_in(const Bytes& bytes) {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(bytes, [](std::byte byte) { return byte != kPoison; }));
  }
  void expect_quiesced() {
    sides_.memory.poison();
    if (writes()) poison_peer();
    sides_.peer.go_on();  // if it was stopped: now it could move bytes
    const bool is_watched = seed_ % kWatchedRounds == 0;
    sides_.run_for(is_watched ? Duration(kWatched) : std::chrono::milliseconds(5), true);
    EXPECT_EQ(late_in(sides_.memory.read()), 0U) << "bytes landed late, in near's memory";
    // What is done was answered piece by piece, wherever the peer had stood.
    if (writes()) expect_peer_poison(cell_.stands_still() && !is_done_ ? most_late_ : 0);
  }

  Sides& sides_;
  const Cell cell_;
  const std::uint64_t seed_;
  std::mt19937_64 random_;
  const std::uint64_t most_late_;
  std::uint64_t late_ = 0;
  bool peer_was_poisoned_ = false;
  bool is_done_ = false;
};

class LateBytesConformance : public PairingTest {
 protected:
  void SetUp() override {
    PairingTest::SetUp();
    if (IsSkipped()) return;
    if (!candidate().no_processes.empty()) GTEST_SKIP() << candidate().no_processes;
    if (pairing().near != Store::system && pairing().near != Store::shared)
      GTEST_SKIP() << "only memory of the host can be watched";
    freezes_ = Freezer::make().status();
    cells_.resize(Cell::kCount);
  }
  void TearDown() override {
    if (IsSkipped()) return;
    if (!freezes_.ok())
      std::cout << label_of(GetParam()) << ": no peer was frozen: " << freezes_.to_string() << "\n";
    if (!soak().rounds) return;
    std::cout << "cells of " << label_of(GetParam()) << ":";
    for (const std::uint64_t count : cells_) std::cout << " " << count;
    std::cout << "\nends of " << label_of(GetParam()) << ":";
    for (const auto& [outcome, count] : outcomes_)
      std::cout << " " << count << " " << outcome << ",";
    std::cout << std::endl;
  }
  /// With new sides if those that are there cannot begin.
  void run_round(std::uint64_t seed) {
    for (int tries = 0; tries < 2; ++tries) {
      if (!sides_) sides_.emplace(candidate(), pairing());
      ASSERT_TRUE(sides_->ready);
      std::optional<std::string> outcome;
      if (sides_->meet()) {
        Round round(*sides_, seed, candidate().late_bytes_where_still);
        outcome = round.run();
        if (outcome) ++outcomes_[*outcome];
        if (round.late_bytes() > 0)
          ++outcomes_["with bytes that a receiver placed late after it had stood still"];
        if (outcome && round.leaves_a_peer()) return;
      }
      sides_.reset();
      if (outcome) return;
    }
    cannot_begin_ = true;
  }

  std::optional<Sides> sides_;
  std::vector<std::uint64_t> cells_;
  std::map<std::string, std::uint64_t> outcomes_;
  Status freezes_;
  bool cannot_begin_ = false;
};

TEST_P(LateBytesConformance, nothing_lands_after_the_end_whatever_the_peer_is_in) {
  const std::uint64_t end = soak().seed + soak().rounds.value_or(kUsualRounds);
  for (std::uint64_t seed = soak().seed; seed < end && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " of " << label_of(GetParam()));
    const Cell cell(seed);
    if (cell.peer == PeerState::frozen && !freezes_.ok()) continue;
    run_round(seed);
    ASSERT_FALSE(cannot_begin_);
    ++cells_[Cell::index_of(seed)];
  }
}

INSTANTIATE_TEST_SUITE_P(Backend, LateBytesConformance, testing::ValuesIn(peer_pairings()),
                         Labels());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LateBytesConformance);

}  // namespace
}  // namespace towpath::backend::conformance
