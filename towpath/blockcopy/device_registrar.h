// DeviceRegistrar: an agent, and device memory besides that no backend of it takes.
//
// A device's own streams move its memory to and from the host without any backend, so a cache on a
// GPU is of use on a machine whose agent cannot reach GPUs. What a backend takes is registered with
// the agent as ever; device memory that none takes is kept here, known to no backend.
// Thread: any.
#pragma once

#include <string>
#include <vector>

#include <towpath/memory/registrar.h>

namespace towpath::blockcopy {

class DeviceRegistrar final : public memory::Registrar {
 public:
  /// `agent` must outlive it.
  explicit DeviceRegistrar(memory::Registrar& agent) : agent_(agent) {}

  const std::string& name() const override { return agent_.name(); }
  std::vector<std::string> backends() const override { return agent_.backends(); }
  /// Errors: the agent's, but for `unsupported` device memory where no backend was named.
  Result<memory::Registration> register_region(
      memory::SharedRegion region, const memory::RegisterOptions& options = {}) override;

 private:
  memory::Registrar& agent_;
};

}  // namespace towpath::blockcopy
