// RegistrationCore: what stands behind a memory::Registration. Those of one list lie side by side,
// and go when none of them is used any more.
// Thread: any; fields say which lock guards them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <towpath/agent/registrations.h>

namespace towpath::agent {

struct Registrations::Shared {
  std::weak_ptr<AgentCore> agent;
  std::string agent_name;
  std::vector<std::string> backends;
  InstanceMask instances = 0;
};

class RegistrationCore final : public memory::RegistrationState {
 public:
  ~RegistrationCore() override;
  const std::string& agent_name() const override { return shared->agent_name; }
  const RegionDescriptor& descriptor() const override { return record->region; }
  std::vector<std::string> backends() const override { return shared->backends; }
  bool is_registered() const override;
  Status release() override;
  bool is_of(const std::weak_ptr<AgentCore>& agent) const noexcept {
    return !agent.owner_before(shared->agent) && !shared->agent.owner_before(agent);
  }

  // Set once, before anybody sees it.
  std::shared_ptr<const Registrations::Shared> shared;
  RecordPtr record;
  // Guarded by the mutex of Registrations.
  InstanceMask held = 0;
  memory::SharedRegion region;
  std::atomic<bool> released{false};
  bool keeps_region = false;  ///< it could not be released for want of memory
};

}  // namespace towpath::agent
