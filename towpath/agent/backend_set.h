// BackendSet: the backends of one agent, in the order in which they were created.
//
// It only grows: what stands in it stays until the agent is destroyed, so walking it takes no lock.
// Handles may keep it longer than the agent's end, and then without the backends themselves.
// Thread: any; one thread at a time makes and publishes.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/agent/backend_instance.h>
#include <towpath/agent/context.h>

namespace towpath::agent {

class BackendSet {
 public:
  explicit BackendSet(const AgentContext& context) : context_(context) {}

  /// Opens a backend that nobody sees yet; `owner` outlives it.
  /// Errors: not_found, already_exists (one of a type), exhausted (kMaxInstances), or the
  /// backend's.
  Result<std::unique_ptr<BackendInstance>> make(std::string_view type,
                                                const backend::Params& params,
                                                InstanceOwner& owner) const;
  void publish(std::unique_ptr<BackendInstance> instance);
  /// The end of the agent: these backends go, of which nothing is left, and no handle's call is at
  /// the others any more. What they were given (clock, sink, metrics, the registry with its
  /// libraries) may go next.
  void close(InstanceMask idle) noexcept;

  std::span<const std::unique_ptr<BackendInstance>> all() const noexcept {
    return {instances_.data(), count_.load(std::memory_order_acquire)};
  }
  BackendInstance& at(std::size_t index) const noexcept { return *instances_[index]; }
  /// By its name, or by one that means it. Errors: not_found, with the names of those there are.
  Result<BackendInstance*> find(std::string_view type) const;
  std::vector<std::string> names(InstanceMask which = ~InstanceMask{0}) const;

  /// The lower latency first, then the order of creation. `than` may be kMaxInstances: none.
  bool is_sooner(const BackendInstance& instance, std::size_t than) const;
  std::vector<BackendInstance*> soonest_first() const;
  /// The one over which notifications for the peer travel. Errors: unsupported.
  Result<BackendInstance*> notifier_of(const Peer& peer) const;

 private:
  const AgentContext& context_;
  // Below count_ they are complete: its release in publish() pairs with the acquire in all().
  std::array<std::unique_ptr<BackendInstance>, kMaxInstances> instances_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace towpath::agent
