// AgentCore: an agent's five parts, in the order in which they stand on each other. It outlives the
// Agent while handles point to it.
//
//   Transfers -> PeerBook -------> ProgressEngine -> BackendSet
//                Registrations --> ProgressEngine
//
// Locks, in the order in which they may be taken:
//   peers, registrations            never both at once
//   a backend's mutex               one backend and its active transfers
//   leaves, held for moments        deferred_mutex_ of a backend, those of the inbox, pool, timer
//                                   and waiting
// Thread: any.
#pragma once

#include <memory>
#include <string_view>

#include <towpath/agent/agent.h>
#include <towpath/agent/peer_book.h>
#include <towpath/agent/registrations.h>
#include <towpath/agent/transfers.h>

namespace towpath::agent {

class AgentCore {
 public:
  /// Errors: Agent::create().
  static Result<std::shared_ptr<AgentCore>> create(const AgentOptions& options);

  /// As Agent documents it.
  Status add_backend(std::string_view type, const backend::Params& params);
  /// Ends all transfers, waits until they are quiesced as far as their backends can say, and lets
  /// go of memory and paths. What never comes to rest keeps this alive for good. Returns the
  /// backends of which nothing is left.
  InstanceMask shut_down();
  /// The same, and without the memory that it takes everything stays as it is, until the process
  /// ends.
  void shut_down_or_stay() noexcept;

 private:
  struct Foundation {
    std::unique_ptr<AgentContext> context;
    std::unique_ptr<BackendSet> backends;
    std::unique_ptr<ProgressEngine> engine;
  };
  explicit AgentCore(Foundation foundation);
  /// The backends on which nothing moves any more.
  InstanceMask quiesce_all(const std::shared_ptr<AgentCore>& self);

  const Foundation foundation_;
  run::Mutex adding_;  // before all others
  std::shared_ptr<AgentCore> immortal_;

 public:
  AgentContext& context;
  BackendSet& backends;
  ProgressEngine& engine;
  Registrations registrations;
  PeerBook peers;
  Transfers transfers;
};

}  // namespace towpath::agent
