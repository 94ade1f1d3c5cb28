// PeerProcess: a second, real process with an agent ("peer") over shm and two pools.
//
// The pools hold the same bytes: one in a memfd that others can map, one in ordinary memory. While
// nobody asks it to echo, the peer sleeps: it does nothing when its memory is read.
// It dies with its parent. Thread: one.
#pragma once

#include <memory>
#include <string>

#include <towpath/agent/agent.h>
#include <towpath/core/bytes.h>
#include <towpath/memory/shared_region.h>

#include "bench/child.h"

namespace towpath::bench {

inline constexpr const char* kPeerName = "peer";

/// How the peer waits for the next notification while it echoes.
enum class Waiting : char {
  polling = 'p',   ///< calls progress() without a pause
  sleeping = 's',  ///< sleeps until there is something
  line = 'l',      ///< looks at line(): no agent, the bare memory
};

class PeerProcess {
 public:
  /// Forks, so call it before there are threads or agents.
  static std::unique_ptr<PeerProcess> start(std::uint64_t pool_bytes);

  /// Makes the two agents known to each other.
  void introduce(agent::Agent& agent) const;
  /// From now on the peer sends each notification back to `agent`, until "end" arrives.
  void echo(Waiting how) const;
  /// A word of the shared pool. With Waiting::line the peer adds one to each odd number that is
  /// written here, until kEndOfLine, after which it is as it was.
  std::uint64_t& line() const;
  static constexpr std::uint64_t kEndOfLine = UINT64_MAX;
  /// Waits until the peer has restored line().
  void end_line() const;

  /// The pool that can be mapped: its address in the peer, and its bytes through our own mapping.
  std::uint64_t shared_address() const noexcept { return shared_address_; }
  ConstByteSpan shared_bytes() const { return mapped_->bytes(); }
  /// The pool that cannot: its address in the peer.
  std::uint64_t plain_address() const noexcept { return plain_address_; }

 private:
  explicit PeerProcess(std::uint64_t pool_bytes);
  void take_offer();

  Child child_;
  Bytes metadata_;
  std::uint64_t shared_address_ = 0;
  std::uint64_t plain_address_ = 0;
  const std::uint64_t pool_bytes_;
  std::shared_ptr<memory::SharedMemoryRegion> mapped_;
};

}  // namespace towpath::bench
