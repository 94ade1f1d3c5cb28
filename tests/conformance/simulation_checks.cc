// Simulation: what must hold, and the end.
#include <algorithm>
#include <cstring>

#include <towpath/core/format.h>

#include "simulation_parts.h"

namespace towpath::conformance {
namespace {

using backend::Quiescence;

/// Far more rounds than a drain takes: what has not ended then never does.
constexpr int kDrainRounds = 20'000;

}  // namespace

// ---- checks

bool Simulation::target_is_right(const Move& move, std::size_t block) const {
  return std::memcmp(move.target().block(move.target_blocks()[block]),
                     move.bytes.data() + block * kBlockBytes, kBlockBytes) == 0;
}

void Simulation::judge(Move& move) {
  move.state = Move::State::over;
  move.outcome = move.transfer.outcome();
  if (move.outcome == Outcome::done) ++done_;
  const Status status = move.transfer.status();
  const std::string who = cat("transfer ", move.number, " (", name_of(move.outcome), ") ");
  if (move.outcome == Outcome::none) broke(cat(who, "ended without an outcome"));
  if (status.ok() != (move.outcome == Outcome::done)) broke(cat(who, "says ", status.to_string()));
  std::set<std::uint64_t> bad;
  for (const agent::DescriptorError& error : move.transfer.errors()) bad.insert(error.descriptor);
  // Memory that went meanwhile is looked after elsewhere.
  if (!move.has_pools()) return free_of(move);
  if (move.outcome == Outcome::done || (move.outcome == Outcome::failed && !bad.empty())) {
    for (std::size_t i = 0; i < move.target_blocks().size(); ++i) {
      if (!bad.contains(i) && !target_is_right(move, i)) broke(cat(who, "block ", i, " is wrong"));
    }
  }
  free_of(move);
}

void Simulation::post_again(Move& move) {
  if (!move.has_pools() || move.speaks) return;
  const auto is_free = [](const Node& node, const std::vector<std::uint64_t>& blocks) {
    return std::ranges::none_of(blocks, [&](auto block) { return node.busy[block]; });
  };
  if (!is_free(*move.near, move.near_blocks) || !is_free(*move.far, move.far_blocks)) return;
  for (const auto block : move.near_blocks) move.near->busy[block] = true;
  for (const auto block : move.far_blocks) move.far->busy[block] = true;
  post(move);
}

void Simulation::reap() {
  const Instant now = clock_.now();
  for (const auto& move : moves_) {
    if (move->state == Move::State::over) {
      if (move->transfer.valid() && move->transfer.outcome() != move->outcome)
        broke(cat("transfer ", move->number, " ended twice"));
      continue;
    }
    if (move->state != Move::State::posted) continue;
    if (move->transfer.ended()) {
      judge(*move);
      if (random_.chance(100)) post_again(*move);
    } else if (now > move->deadline) {
      move->near->agent->progress();
      if (move->transfer.outcome() == Outcome::none)
        broke(cat("transfer ", move->number, " has no outcome at its deadline"));
    }
  }
}

void Simulation::hear_word(Node& node, const AgentIdentity& from, const std::string& word) {
  const std::uint64_t number = std::stoull(word.substr(1));
  ++words_;
  if (word[0] == 'm') {
    const Pair pair{from, node.agent->identity()};
    std::uint64_t& next = heard_[pair];
    if (number < next) broke(cat(word, " came again or out of order"));
    // What was said and not heard before they met again may be lost; nothing since.
    if (number > std::max(next, met_at_[pair])) broke(cat(word, " came, but not m", next));
    next = number + 1;
    return;
  }
  Move& move = *moves_[number];
  if (move.reported) broke(cat(word, " came again"));
  move.reported = true;
  if (move.state == Move::State::dropped) return broke(cat(word, " came of a cancelled one"));
  if (move.state == Move::State::over) {
    if (move.outcome != Outcome::done) broke(cat(word, " came of ", name_of(move.outcome)));
    return;
  }
  for (std::size_t i = 0; move.has_pools() && i < move.target_blocks().size(); ++i) {
    if (!target_is_right(move, i)) broke(cat(word, " came before its bytes"));
  }
}

void Simulation::check_still() {
  for (const auto& node : nodes_) {
    for (std::uint64_t block = 0; node->region && block < kBlocks; ++block) {
      if (node->busy[block]) continue;
      if (std::memcmp(node->block(block), node->shadow.data() + block * kBlockBytes, kBlockBytes) !=
          0)
        broke(cat("a byte moved in block ", block, " of ", node->name, " that no transfer has"));
    }
  }
  for (const Grave& grave : graves_) {
    if (std::memcmp(grave.region->bytes().data(), grave.bytes.data(), grave.bytes.size()) != 0)
      broke("a byte moved in memory that was released");
  }
}

// ---- the end

bool Simulation::all_ended() const {
  return std::ranges::none_of(moves_,
                              [](const auto& move) { return move->state == Move::State::posted; });
}

bool Simulation::knows(const Node& node, const Node& other) const {
  const auto peer = node.agent->peer(other.name);
  return peer.ok() && !peer->lost && peer->identity == other.agent->identity();
}

// What was said in a life that is over, or to a peer that is lost, may be lost with it.
bool Simulation::heard_all() {
  for (const auto& from : nodes_) {
    for (const auto& to : nodes_) {
      const Pair pair{from->agent->identity(), to->agent->identity()};
      const std::uint64_t said = said_[pair];
      if (said == met_at_[pair] || !knows(*from, *to)) continue;
      if (heard_[pair] < said) return false;
    }
  }
  return true;
}

// Only who knows the sender can acknowledge.
bool Simulation::all_acknowledged() const {
  for (const auto& from : nodes_) {
    for (const auto& to : nodes_) {
      if (!knows(*from, *to) || !knows(*to, *from)) continue;
      if (from->agent->peer(to->name)->waiting_notifications > 0) return false;
    }
  }
  return true;
}

// Everything ends when time passes, and what was said is heard.
void Simulation::drain() {
  for (const auto& one : nodes_) {
    for (const auto& other : nodes_)
      network_->set_parted(one->agent->identity(), other->agent->identity(), false);
  }
  for (const auto& from : nodes_) {
    for (const auto& to : nodes_) say(*from, *to);
  }
  for (int i = 0; i < kDrainRounds && broken_.empty(); ++i) {
    const bool ended = quiesced_ == Quiescence::none || all_ended();
    if (i > 100 && ended && heard_all() && all_acknowledged()) break;
    for (const auto& node : nodes_) {
      node->agent->progress();
      hear(*node);
    }
    reap();
    check_still();
    let_time_pass();
  }
  if (broken_.empty() && quiesced_ != Quiescence::none && !all_ended())
    broke("a transfer never ended");
  if (broken_.empty() && !heard_all()) broke("a message was lost");
  if (broken_.empty() && !all_acknowledged()) broke("what was heard was never acknowledged");
}

void Simulation::end_all() {
  for (int i = 0; i < 6 && broken_.empty(); ++i) launch();
  while (!nodes_.empty() && broken_.empty()) {
    Node& node = *nodes_.back();
    const bool keeps = quiesced_ != Quiescence::none;
    node.agent.reset();
    const ByteSpan bytes = node.region->bytes();
    if (keeps) graves_.push_back({node.region, {bytes.begin(), bytes.end()}});
    // Moves look at their nodes no more: their outcomes are decided.
    for (const auto& move : moves_) {
      if (move->state == Move::State::posted && move->near == &node && keeps &&
          !move->transfer.ended())
        broke(cat("transfer ", move->number, " outlived its agent"));
      if (move->near == &node || move->far == &node) move->state = Move::State::dropped;
    }
    node.pool = memory::Registration();
    nodes_.pop_back();
    for (int j = 0; j < 20; ++j) {
      clock_.advance(std::chrono::microseconds(200));
      network_->run_due();
    }
    check_still();
  }
}

}  // namespace towpath::conformance
