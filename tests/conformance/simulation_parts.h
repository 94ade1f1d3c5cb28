// The parts of a Simulation: its agents and its transfers.
// Thread: none of its own.
#pragma once

#include "simulation.h"

namespace towpath::conformance {

inline constexpr std::uint64_t kBlocks = 16;
inline constexpr std::uint64_t kBlockBytes = 256;

/// An agent, its pool, and what the pool must hold.
struct Simulation::Node {
  std::string name;
  std::unique_ptr<agent::Agent> agent;
  memory::SharedRegion region;
  memory::Registration pool;
  std::uint64_t lives = 0;
  std::uint64_t pools = 0;  // so far
  Bytes shadow;             // what blocks that are not busy hold
  std::vector<bool> busy;

  std::byte* block(std::uint64_t index) const {
    return region->bytes().data() + index * kBlockBytes;
  }
};

/// A transfer, the blocks that it has for itself, and the bytes that it shall bring.
struct Simulation::Move {
  enum class State { idle, posted, dropped, over };
  std::size_t number = 0;
  State state = State::idle;
  Node* near = nullptr;
  Node* far = nullptr;
  std::uint64_t near_pool = 0, far_pool = 0;  // which of their pools
  TransferOp op = TransferOp::read;
  std::vector<std::uint64_t> near_blocks, far_blocks;
  Bytes bytes;
  agent::Transfer transfer;
  Outcome outcome = Outcome::none;
  Instant deadline;
  bool reported = false;
  bool speaks = false;

  Node& target() const { return op == TransferOp::read ? *near : *far; }
  const std::vector<std::uint64_t>& target_blocks() const {
    return op == TransferOp::read ? near_blocks : far_blocks;
  }
  Node& source() const { return op == TransferOp::read ? *far : *near; }
  const std::vector<std::uint64_t>& source_blocks() const {
    return op == TransferOp::read ? far_blocks : near_blocks;
  }
  bool has_pools() const { return near->pools == near_pool && far->pools == far_pool; }
};

}  // namespace towpath::conformance
