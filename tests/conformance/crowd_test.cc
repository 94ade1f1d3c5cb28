// A thousand real agents on a simulated network: they meet, talk, move bytes, leave and come back,
// by a seed. What must hold:
//
//   - each transfer ends, and `done` means that every byte is in place
//   - where no transfer is under way no byte changes: neither of those that ended, nor of those
//     whose other side has left
//   - messages arrive once and in order
//
// One agent knows all others (the hub); each of them knows it and a few more. One thread and one
// clock: a seed repeats a run exactly. TOWPATH_CROWD_TRANSFERS sets how many transfers there are
// (`./dev soak` takes a million).
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/memory/system_region.h>

#include "simulation.h"

namespace towpath::conformance {
namespace {

constexpr std::size_t kAgents = 1000;
constexpr std::size_t kFriends = 6;
constexpr std::size_t kSlots = 32;
constexpr std::size_t kSlotBytes = 64;
constexpr std::size_t kMostUnderWay = 256;

using Slot = std::array<std::uint64_t, kSlotBytes / 8>;

/// A member's memory, in one of its lives; moves keep it beyond that.
struct Pool {
  memory::SharedRegion region = *memory::SystemRegion::allocate(kSlots * kSlotBytes);
  std::array<Slot, kSlots> shadow{};  // of slots that no move has
  std::vector<std::size_t> free;

  std::byte* at(std::size_t slot) const { return region->bytes().data() + slot * kSlotBytes; }
  Slot holds(std::size_t slot) const {
    Slot value;
    std::memcpy(&value, at(slot), sizeof value);
    return value;
  }
  void fill(std::size_t slot, const Slot& value) {
    std::memcpy(at(slot), &value, sizeof value);
    shadow[slot] = value;
  }
};

struct Member {
  std::string name;
  std::uint64_t lives = 0;
  std::unique_ptr<agent::Agent> agent;
  std::shared_ptr<Pool> pool;
  memory::Registration registration;
  std::vector<std::size_t> friends;
};

struct Move {
  agent::Transfer transfer;
  std::size_t near = 0;
  std::uint64_t near_life = 0;
  std::shared_ptr<Pool> source, target;
  std::size_t from = 0, to = 0;  // slots
};

class Crowd {
 public:
  explicit Crowd(std::uint64_t seed) : random_(seed) {
    const backends::sim::Behaviour behaviour{.longest_step = std::chrono::microseconds(50),
                                             .piece_bytes = 24,
                                             .tears = true,
                                             .silent = 5,
                                             .longest_way = std::chrono::microseconds(100)};
    network_ = std::make_shared<backends::sim::Network>(random_.next(), behaviour, clock_);
    if (!registry_.add(backends::sim::sim_type(network_)).ok()) broke("no sim backend");
    members_.resize(kAgents);
    for (std::size_t i = 0; i < kAgents; ++i) {
      members_[i].name = cat("agent-", i);
      join(i);
    }
  }

  /// What broke first; empty: nothing.
  std::string run(std::size_t transfers) {
    while (begun_ < transfers && broken_.empty()) step();
    for (int i = 0; i < 100'000 && !moves_.empty() && broken_.empty(); ++i) let_time_pass();
    if (!moves_.empty()) broke(cat(moves_.size(), " transfers do not end"));
    hear_all();
    for (Member& member : members_) check_still(*member.pool);
    if (done_ < begun_ / 2) broke(cat("only ", done_, " of ", begun_, " transfers were done"));
    if (heard_ == 0) broke("nobody heard anything");
    return broken_;
  }
  std::string report() const {
    return cat(begun_, " transfers, ", done_, " done; ", joined_, " joined; ", heard_, " messages");
  }

 private:
  void broke(const std::string& what) {
    if (broken_.empty()) broken_ = what;
  }

  void step() {
    const std::uint64_t what = random_.below(1000);
    const std::size_t anyone = random_.below(kAgents);
    if (what < 600) return launch(anyone);
    if (what < 850) return let_time_pass();
    if (what < 930) return say(anyone);
    if (what < 990) return hear(random_.chance(300) ? 0 : anyone);
    if (what < 995) return join(anyone);  // anew: it has died
  }

  void join(std::size_t index) {
    Member& member = members_[index];
    if (member.agent) {
      if (random_.chance(500)) (void)member.registration.release();
      member.agent.reset();
      member.registration = memory::Registration();
      check_still(*member.pool);
    }
    auto made = agent::Agent::create({.name = member.name,
                                      .registry = &registry_,
                                      .clock = &clock_,
                                      .incarnation = ++member.lives});
    if (!made.ok()) return broke(made.status().to_string());
    member.agent = *std::move(made);
    if (const Status added = member.agent->add_backend("sim"); !added.ok())
      return broke(added.to_string());
    member.pool = std::make_shared<Pool>();
    for (std::size_t slot = 0; slot < kSlots; ++slot) member.pool->free.push_back(slot);
    auto registered = member.agent->register_region(member.pool->region);
    if (!registered.ok()) return broke(registered.status().to_string());
    member.registration = *std::move(registered);
    member.friends.clear();
    if (index != 0) meet(index, 0);
    for (std::size_t i = 0; i < kFriends; ++i) meet(index, random_.below(kAgents));
    ++joined_;
  }

  void meet(std::size_t one, std::size_t other) {
    if (one == other || !members_[other].agent) return;
    load(one, other);
    load(other, one);
  }
  void load(std::size_t reader, std::size_t of) {
    const auto metadata = members_[of].agent->metadata();
    if (!metadata.ok()) return broke(metadata.status().to_string());
    const auto loaded = members_[reader].agent->load_metadata(*metadata);
    if (!loaded.ok()) return broke(loaded.status().to_string());
    std::vector<std::size_t>& friends = members_[reader].friends;
    if (std::ranges::find(friends, of) == friends.end()) friends.push_back(of);
  }

  std::size_t friend_of(const Member& member) {
    return member.friends[random_.below(member.friends.size())];
  }
  Slot any_bytes() {
    Slot value;
    for (std::uint64_t& word : value) word = random_.next();
    return value;
  }
  std::size_t take_slot(Pool& pool) {
    const std::size_t slot = pool.free.back();
    pool.free.pop_back();
    if (pool.holds(slot) != pool.shadow[slot])
      broke("bytes changed where no transfer was under way");
    return slot;
  }

  void launch(std::size_t index) {
    Member& near = members_[index];
    if (near.friends.empty() || moves_.size() >= kMostUnderWay) return let_time_pass();
    Member& far = members_[friend_of(near)];
    if (near.pool->free.empty() || far.pool->free.empty()) return let_time_pass();
    const bool is_write = random_.chance(500);
    Move move{.near = index, .near_life = near.lives};
    move.source = is_write ? near.pool : far.pool;
    move.target = is_write ? far.pool : near.pool;
    move.from = take_slot(*move.source);
    move.to = take_slot(*move.target);
    move.source->fill(move.from, any_bytes());
    const auto list_of = [](const Pool& pool, std::size_t slot) {
      DescriptorList list(MemoryKind::system);
      (void)list.add(Descriptor{address_of(pool.at(slot)), kSlotBytes, 0});
      return list;
    };
    const auto source = list_of(*move.source, move.from);
    const auto target = list_of(*move.target, move.to);
    auto made = near.agent->create_transfer(is_write ? TransferOp::write : TransferOp::read,
                                            is_write ? source : target, far.name,
                                            is_write ? target : source);
    const bool posted =
        made.ok() &&
        made->post({.timeout = std::chrono::milliseconds(20), .notification = {}}).ok();
    if (!posted) return give_back(move);  // the other has left, and was not met again
    move.transfer = *std::move(made);
    moves_.push_back(std::move(move));
    ++begun_;
  }

  /// Its slots are free again: with new bytes, so that a late one would be seen.
  void give_back(Move& move) {
    move.source->fill(move.from, any_bytes());
    move.target->fill(move.to, any_bytes());
    move.source->free.push_back(move.from);
    move.target->free.push_back(move.to);
  }

  void let_time_pass() {
    const auto next = network_->next_event();
    clock_.advance(next ? std::max(*next - clock_.now(), Duration(0))
                        : std::chrono::milliseconds(1));
    network_->run_due();
    for (const Move& move : moves_) {
      Member& near = members_[move.near];
      if (near.lives == move.near_life) near.agent->progress();
    }
    std::erase_if(moves_, [this](Move& move) {
      if (!move.transfer.ended()) return false;
      if (move.transfer.outcome() == Outcome::done) {
        ++done_;
        if (move.target->holds(move.to) != move.source->holds(move.from))
          broke("done, and not every byte is in place");
      }
      give_back(move);
      return true;
    });
  }

  void say(std::size_t index) {
    Member& member = members_[index];
    if (member.friends.empty()) return;
    const Member& to = members_[friend_of(member)];
    const auto known = member.agent->peer(to.name);
    if (!known.ok()) return;
    std::uint64_t& said = said_[{member.agent->identity(), known->identity}];
    if (member.agent->notify(to.name, as_bytes(cat(said + 1))).ok()) ++said;
  }

  void hear(std::size_t index) {
    Member& member = members_[index];
    member.agent->progress();
    for (const agent::Notification& each : member.agent->take_notifications()) {
      std::uint64_t& heard = last_heard_[{each.from, member.agent->identity()}];
      if (as_text(each.message) != cat(heard + 1))
        broke(cat(member.name, " heard ", as_text(each.message), " after ", heard));
      ++heard;
      ++heard_;
    }
  }

  /// What was said between agents that are still there has arrived when nothing is on its way.
  void hear_all() {
    for (int round = 0; round < 20; ++round) {
      let_time_pass();
      for (std::size_t i = 0; i < kAgents; ++i) hear(i);
    }
    std::set<AgentIdentity> here;
    for (const Member& member : members_) here.insert(member.agent->identity());
    for (const auto& [pair, said] : said_) {
      if (!here.contains(pair.first) || !here.contains(pair.second)) continue;
      const std::uint64_t heard = last_heard_[pair];
      if (heard != said)
        broke(cat(pair.second.name, " heard ", heard, " of ", said, " messages of ",
                  pair.first.name));
    }
  }

  void check_still(const Pool& pool) {
    for (const std::size_t slot : pool.free)
      if (pool.holds(slot) != pool.shadow[slot]) broke("bytes changed after everything had ended");
  }

  using Pair = std::pair<AgentIdentity, AgentIdentity>;
  backends::sim::Random random_;
  TickingClock clock_;
  std::shared_ptr<backends::sim::Network> network_;
  backend::Registry registry_;
  std::vector<Member> members_;  // the first is the hub
  std::vector<Move> moves_;
  std::map<Pair, std::uint64_t> said_, last_heard_;
  std::size_t begun_ = 0, done_ = 0, joined_ = 0, heard_ = 0;
  std::string broken_;
};

std::size_t transfers_wanted() {
  const char* const wanted = std::getenv("TOWPATH_CROWD_TRANSFERS");
  return wanted == nullptr ? 20'000 : std::strtoull(wanted, nullptr, 10);
}

TEST(CrowdTest, a_thousand_agents_come_and_go) {
  for (const std::uint64_t seed : {1U, 2U}) {
    Crowd crowd(seed);
    EXPECT_EQ(crowd.run(transfers_wanted()), "") << "seed " << seed;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), crowd.report().c_str());
  }
}

}  // namespace
}  // namespace towpath::conformance
