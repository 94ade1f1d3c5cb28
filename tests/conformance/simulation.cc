#include <algorithm>
#include <cstring>

#include <towpath/core/format.h>
#include <towpath/memory/system_region.h>

#include "simulation_parts.h"

namespace towpath::conformance {
namespace {

using backend::Notifications;
using backend::Quiescence;

constexpr std::size_t kNodes = 3;
constexpr int kSteps = 150;

Duration microseconds(std::uint64_t count) { return std::chrono::microseconds(count); }

/// A network in any mood from calm to hopeless.
backends::sim::Behaviour behaviour_of(backends::sim::Random& random, Quiescence quiesced,
                                      Notifications notifications) {
  const auto permille = [&](unsigned most) {
    return random.chance(300) ? 0U : static_cast<unsigned>(random.below(most));
  };
  return {.quiesced = quiesced,
          .quiescence_bound = microseconds(random.below(3000)),
          .notifications = notifications,
          .longest_step = microseconds(random.chance(200) ? 0 : random.below(400)),
          .piece_bytes = 1 + random.below(2 * kBlockBytes),
          .tears = random.chance(700),
          .eager = permille(400),
          .silent = permille(300),
          .failing = permille(100),
          .longest_way = microseconds(random.below(500)),
          .dropped = permille(400),
          .repeated = permille(400),
          .torn = permille(300)};
}

}  // namespace

Simulation::Simulation(std::uint64_t seed, Quiescence quiesced, Notifications notifications)
    : random_(seed), quiesced_(quiesced) {
  const auto behaviour = behaviour_of(random_, quiesced, notifications);
  network_ = std::make_shared<backends::sim::Network>(random_.next(), behaviour, clock_);
  if (!registry_.add(backends::sim::sim_type(network_)).ok()) broke("no sim backend");
  for (std::size_t i = 0; i < kNodes; ++i) {
    nodes_.push_back(std::make_unique<Node>());
    nodes_.back()->name = std::string(1, static_cast<char>('a' + i));
    restart(*nodes_.back());
  }
}

Simulation::~Simulation() = default;

void Simulation::broke(const std::string& what) {
  if (broken_.empty()) broken_ = what;
}

std::string Simulation::run() {
  for (int i = 0; i < kSteps && broken_.empty(); ++i) {
    step();
    reap();
    check_still();
  }
  drain();
  end_all();
  return broken_;
}

// ---- steps

Simulation::Node& Simulation::any_node() { return *nodes_[random_.below(nodes_.size())]; }

std::vector<std::unique_ptr<Simulation::Move>>::iterator Simulation::any_move() {
  std::vector<std::size_t> posted;
  for (const auto& move : moves_) {
    if (move->state == Move::State::posted) posted.push_back(move->number);
  }
  if (posted.empty()) return moves_.end();
  return moves_.begin() + static_cast<std::ptrdiff_t>(posted[random_.below(posted.size())]);
}

void Simulation::step() {
  Node& node = any_node();
  const std::uint64_t what = random_.below(1000);
  if (what < 250) return launch();
  if (what < 600) {
    for (std::uint64_t i = random_.below(8); i > 0; --i) any_node().agent->progress();
    return;
  }
  if (what < 750) return let_time_pass();
  if (what < 830) return say(node, any_node());
  if (what < 880) return hear(node);
  if (what < 910) {
    if (const auto move = any_move(); move != moves_.end()) (*move)->transfer.cancel();
    return;
  }
  if (what < 935) {
    if (const auto move = any_move(); move != moves_.end() && !(*move)->transfer.ended()) {
      (*move)->state = Move::State::dropped;
      (*move)->transfer = agent::Transfer();
      if (quiesced_ == Quiescence::immediate) free_of(**move);
    }
    return;
  }
  if (what < 960) return meet(node, any_node());
  if (what < 970) {
    const auto& one = node.agent->identity();
    const auto& other = any_node().agent->identity();
    return network_->set_parted(one, other, random_.chance(400));
  }
  if (what < 980) return renew_pool(node);
  if (what < 985) return (void)node.agent->forget_peer(any_node().name);
  if (what < 992) return restart(node);
  if (what < 996) {
    network_->cut_off(node.agent->identity());
    if (random_.chance(500)) let_time_pass();
    return restart(node);
  }
}

void Simulation::let_time_pass() {
  const auto next = network_->next_event();
  const Duration step = random_.within(microseconds(400));
  const Duration wanted = next ? std::max(*next - clock_.now(), Duration(0)) : step;
  clock_.advance(random_.chance(700) ? std::min(wanted, Duration(std::chrono::milliseconds(5)))
                                     : step);
  if (random_.chance(300)) network_->run_due();  // with nobody looking
}

void Simulation::launch() {
  auto move = std::make_unique<Move>();
  move->near = &any_node();
  move->far = &any_node();
  move->op = random_.chance(500) ? TransferOp::read : TransferOp::write;
  move->number = moves_.size();
  const std::size_t count = 1 + random_.below(4);
  move->near_blocks = free_blocks(*move->near, count);
  for (const std::uint64_t block : move->near_blocks) move->near->busy[block] = true;
  move->far_blocks = free_blocks(*move->far, count);
  for (const std::uint64_t block : move->far_blocks) move->far->busy[block] = true;
  move->near_pool = move->near->pools;
  move->far_pool = move->far->pools;
  if (move->near_blocks.size() != count || move->far_blocks.size() != count) return free_of(*move);
  const auto list_of = [](const Node& node, const std::vector<std::uint64_t>& blocks) {
    DescriptorList list(MemoryKind::system);
    for (const std::uint64_t block : blocks) {
      if (!list.add(Descriptor{address_of(node.block(block)), kBlockBytes, 0}).ok()) return list;
    }
    return list;
  };
  agent::TransferOptions options;
  move->speaks = random_.chance(500);
  if (move->speaks) options.notification = to_bytes(cat("t", move->number));
  auto made = move->near->agent->create_transfer(move->op, list_of(*move->near, move->near_blocks),
                                                 move->far->name,
                                                 list_of(*move->far, move->far_blocks), options);
  if (!made.ok()) return free_of(*move);  // not met yet, lost, or an old metadata
  move->transfer = *std::move(made);
  moves_.push_back(std::move(move));
  post(*moves_.back());
}

void Simulation::post(Move& move) {
  scribble(*move.near, move.near_blocks);
  scribble(*move.far, move.far_blocks);
  move.bytes.clear();
  for (const std::uint64_t block : move.source_blocks()) {
    const std::byte* from = move.source().block(block);
    move.bytes.insert(move.bytes.end(), from, from + kBlockBytes);
  }
  move.outcome = Outcome::none;
  move.reported = false;
  const Duration timeout = microseconds(random_.below(20'000));
  move.deadline = clock_.now() + timeout + std::chrono::milliseconds(1);
  const Status posted = move.transfer.post({.timeout = timeout, .notification = {}});
  if (posted.ok()) {
    move.state = Move::State::posted;
    return;
  }
  const Code code = posted.code();
  if (code != Code::peer_lost && code != Code::not_found && code != Code::exhausted)
    broke(cat("post: ", posted.to_string()));
  move.state = Move::State::over;
  move.outcome = move.transfer.outcome();
  free_of(move);
}

void Simulation::say(Node& from, Node& to) {
  const Pair pair{from.agent->identity(), to.agent->identity()};
  const auto known = from.agent->peer(to.name);
  if (!known.ok() || known->identity != pair.second) return;
  const Status said = from.agent->notify(to.name, as_bytes(cat("m", said_[pair])));
  if (said.ok()) ++said_[pair];
}

void Simulation::hear(Node& node) {
  for (const agent::Notification& reported : node.agent->take_notifications())
    hear_word(node, reported.from, std::string(as_text(reported.message)));
}

void Simulation::meet(Node& node, Node& other) {
  if (&node == &other) return;
  const auto metadata = other.agent->metadata();
  if (!metadata.ok()) return broke(cat("metadata: ", metadata.status().to_string()));
  const auto before = node.agent->peer(other.name);
  const bool anew = !before.ok() || before->lost || before->identity != other.agent->identity();
  const auto loaded = node.agent->load_metadata(*metadata);
  const Pair pair{node.agent->identity(), other.agent->identity()};
  if (loaded.ok() && anew) met_at_[pair] = said_[pair];
}

// ---- memory

void Simulation::open_pool(Node& node) {
  ++node.pools;
  node.busy.assign(kBlocks, false);
  node.region = *memory::SystemRegion::allocate(kBlocks * kBlockBytes);
  node.shadow.assign(kBlocks * kBlockBytes, std::byte{0});
  auto pool = node.agent->register_region(node.region);
  if (!pool.ok()) return broke(cat("register: ", pool.status().to_string()));
  node.pool = *std::move(pool);
}

// From here on nobody may touch the pool, unless the backend never quiesces: then the agent keeps
// the bytes, and we let go of them, so that a fault of its would be a crash.
void Simulation::bury_pool(Node& node) {
  const Status released = node.pool.release();
  if (!released.ok() && quiesced_ != Quiescence::none)
    broke(cat("release: ", released.to_string()));
  node.pool = memory::Registration();
  if (released.ok()) {
    const ByteSpan bytes = node.region->bytes();
    graves_.push_back({node.region, {bytes.begin(), bytes.end()}});
  }
  node.region.reset();
}

void Simulation::renew_pool(Node& node) {
  bury_pool(node);
  open_pool(node);
  for (const auto& other : nodes_) {
    if (random_.chance(800)) meet(*other, node);
  }
}

void Simulation::restart(Node& node) {
  if (node.agent) {
    if (random_.chance(500)) {
      bury_pool(node);
      node.agent.reset();
    } else {
      node.agent.reset();
      if (quiesced_ != Quiescence::none) {
        const ByteSpan bytes = node.region->bytes();
        graves_.push_back({node.region, {bytes.begin(), bytes.end()}});
      }
      node.pool = memory::Registration();
      node.region.reset();
    }
  }
  auto made = agent::Agent::create({.name = node.name,
                                    .registry = &registry_,
                                    .clock = &clock_,
                                    .incarnation = ++node.lives,
                                    .inbox_messages = 1 + random_.below(40),
                                    .repeat_after = microseconds(500)});
  if (!made.ok()) return broke(made.status().to_string());
  node.agent = *std::move(made);
  if (const Status added = node.agent->add_backend("sim"); !added.ok())
    return broke(added.to_string());
  open_pool(node);
  for (const auto& other : nodes_) {
    if (!other->agent) continue;
    if (random_.chance(900)) meet(*other, node);
    if (random_.chance(900)) meet(node, *other);
  }
}

void Simulation::scribble(Node& node, const std::vector<std::uint64_t>& blocks) {
  for (const std::uint64_t block : blocks) {
    std::byte* const to = node.block(block);
    for (std::uint64_t at = 0; at < kBlockBytes; at += 8) {
      const std::uint64_t word = random_.next();
      std::memcpy(to + at, &word, sizeof word);
    }
    std::memcpy(node.shadow.data() + block * kBlockBytes, to, kBlockBytes);
  }
}

std::vector<std::uint64_t> Simulation::free_blocks(const Node& node, std::size_t count) {
  std::vector<std::uint64_t> found;
  const std::uint64_t start = random_.below(kBlocks);
  for (std::uint64_t i = 0; i < kBlocks && found.size() < count; ++i) {
    const std::uint64_t block = (start + i) % kBlocks;
    if (!node.busy[block]) found.push_back(block);
  }
  if (random_.chance(500)) std::ranges::reverse(found);
  return found;
}

/// The move's blocks are ours again: new bytes, so that a late one would be seen.
void Simulation::free_of(Move& move) {
  if (move.near->pools == move.near_pool) {
    scribble(*move.near, move.near_blocks);
    for (const std::uint64_t block : move.near_blocks) move.near->busy[block] = false;
  }
  if (move.far->pools == move.far_pool) {
    scribble(*move.far, move.far_blocks);
    for (const std::uint64_t block : move.far_blocks) move.far->busy[block] = false;
  }
}

}  // namespace towpath::conformance
