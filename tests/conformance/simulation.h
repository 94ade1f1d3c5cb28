// Simulation: real agents on a simulated network, ruled by one seed, and what must hold all the
// while:
//
//   - each transfer ends exactly once, in a legal state, and by its deadline has an outcome
//   - `done` means that every byte is right; of a failed one, the descriptors not named are
//   - once it has ended, no byte moves in either side's buffers
//   - messages arrive once, in order, and not before the bytes that they speak of
//   - in the end nothing waits to be sent or acknowledged between those who know each other
//   - agents, registrations, handles and peers may go away at any moment
//
// Between ended transfers the buffers belong to the simulation: it writes new bytes into them,
// keeps a shadow, and compares after every step. One thread and one clock: a seed repeats a run
// exactly. Thread: none of its own.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/backends/sim/sim_backend.h>

namespace towpath::conformance {

/// Each look at it lets a little time pass, so that what waits by looking at the clock gets on.
class TickingClock final : public Clock {
 public:
  Instant now() const noexcept override { return {now_ += 100}; }
  Duration since_epoch() const noexcept override { return Duration(now_); }
  void advance(Duration by) noexcept { now_ += by.count(); }

 private:
  mutable std::int64_t now_ = 1;
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, backend::Quiescence quiesced,
             backend::Notifications notifications);
  ~Simulation();

  /// What broke first; empty: nothing.
  std::string run();

  /// What all that is worth: transfers whose bytes came, and messages that were heard.
  std::uint64_t done() const noexcept { return done_; }
  std::uint64_t heard() const noexcept { return words_; }

 private:
  struct Node;
  struct Move;
  using Pair = std::pair<AgentIdentity, AgentIdentity>;  // sender, receiver

  // Steps.
  void step();
  void launch();
  void post(Move& move);
  void post_again(Move& move);
  void say(Node& from, Node& to);
  void hear(Node& node);
  void meet(Node& node, Node& other);
  void renew_pool(Node& node);
  void restart(Node& node);
  void let_time_pass();
  void drain();
  void end_all();

  // Checks.
  void reap();
  void judge(Move& move);
  void hear_word(Node& node, const AgentIdentity& from, const std::string& word);
  void check_still();
  bool all_ended() const;
  bool heard_all();
  bool knows(const Node& node, const Node& other) const;
  bool all_acknowledged() const;
  void broke(const std::string& what);

  // Memory.
  void open_pool(Node& node);
  void bury_pool(Node& node);
  void scribble(Node& node, const std::vector<std::uint64_t>& blocks);
  std::vector<std::uint64_t> free_blocks(const Node& node, std::size_t count);
  bool target_is_right(const Move& move, std::size_t block) const;
  void free_of(Move& move);

  Node& any_node();
  std::vector<std::unique_ptr<Move>>::iterator any_move();

  backends::sim::Random random_;
  const backend::Quiescence quiesced_;
  TickingClock clock_;
  std::shared_ptr<backends::sim::Network> network_;
  backend::Registry registry_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Move>> moves_;  // by number; never shrinks
  struct Grave {
    memory::SharedRegion region;
    Bytes bytes;
  };
  std::vector<Grave> graves_;  // memory that was let go of: nobody may touch it
  std::map<Pair, std::uint64_t> said_, heard_;
  std::map<Pair, std::uint64_t> met_at_;  // how much was said before they last met
  std::set<std::string> parted_;
  std::uint64_t done_ = 0, words_ = 0;
  std::string broken_;
};

}  // namespace towpath::conformance
