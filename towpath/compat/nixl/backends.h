// What NIXL's users create under one name, and the backends of ours that serve it.
//
// Mostly one. "UCX" is two, `shm` where it reaches the peer and `tcp`: NIXL's finds shared memory
// by itself, and UCX's own TCP port can be used to end the process (ucx_port.h). `ucx` joins them,
// without that port, where there is an RDMA device, or as it is when it is asked for by its own
// name, "ucx" (docs/decisions/0061-ucx-is-shm-and-tcp.md). What took the bytes is reported as what
// it is.
//
// Both doors for NIXL's users, C and Python, ask here, so that they agree.
// Invariants: a name is created at most once; its types are backends of the agent from then on.
// Thread: any.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/backend/registry.h>
#include <towpath/run/mutex.h>
#include <towpath/standard/gpus.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/ucx_port.h>
#include <towpath/telemetry/log.h>

namespace towpath::nixl {

/// A backend as its user sees it.
struct NixlBackend {
  std::string name;                ///< as it was asked for
  std::string type;                ///< whose parameters and answers are its own
  std::vector<std::string> types;  ///< all that serve it, the preferred one first
  backend::Params params;          ///< what `type` runs with, defaults among them
};

/// What of the machine decides which backends serve a name.
struct NixlMachine {
  device::DriverSource devices = standard::gpus();
  std::function<bool()> has_rdma = [] { return standard::has_rdma(); };
};

class NixlBackends {
 public:
  /// `registry` must outlive this. Of `environment` UCX_TLS counts: transports without shared
  /// memory keep `shm` out.
  NixlBackends(const backend::Registry& registry, const standard::Environment& environment,
               telemetry::Log log, NixlMachine machine = {});

  /// As NIXL's users call them; "UCX" always among them, and each of the names of one type.
  std::vector<std::string> plugins() const;
  /// The type that is named so. Without UCX shm replaces it. Errors: not_found.
  Result<const backend::BackendType*> plugin(std::string_view name) const;
  /// The memory that any of those takes which may serve `name`. Errors: as plugin().
  Result<std::vector<MemoryKind>> plugin_kinds(std::string_view name) const;

  /// Creates what is not there yet of all that serves `name`. Lives as long as this. Errors:
  /// not_found, already_exists (the name; or it serves another one with other parameters), those of
  /// the backend.
  Result<const NixlBackend*> create(agent::Agent& agent, std::string_view name,
                                    const backend::Params& params);
  /// In the order in which they were created.
  std::vector<NixlBackend> created() const;

  /// Which of `asked` (none: of all) is to be named when `type` moves the bytes: one of that type,
  /// else one that it serves; null: none of them.
  const NixlBackend* served_by(std::string_view type, std::span<const std::string> asked) const;

 private:
  struct Running {
    std::string type;
    backend::Params params;
  };
  Status start(agent::Agent& agent, const backend::BackendType& type, const backend::Params& params)
      TOWPATH_REQUIRES(mutex_);
  /// What comes along with another backend, and serves alone where that one does not start.
  struct Companion {
    std::string_view type;
    bool is_preferred = false;
    std::string_view without;  ///< what is reported when it cannot be had
    std::string_view alone;    ///< what is logged when it serves alone
    backend::Params params;    ///< those that it has none of are left out
  };
  Status add(agent::Agent& agent, NixlBackend& made, const Status& started,
             const Companion& companion) TOWPATH_REQUIRES(mutex_);
  Status start_ucx(agent::Agent& agent, const backend::BackendType& type, backend::Params params,
                   NixlBackend& made) TOWPATH_REQUIRES(mutex_);
  Status add_tcp(agent::Agent& agent, NixlBackend& ucx, const Status& started)
      TOWPATH_REQUIRES(mutex_);
  Status add_shm(agent::Agent& agent, NixlBackend& ucx, const Status& started)
      TOWPATH_REQUIRES(mutex_);
  Status add_ucx_device(agent::Agent& agent, NixlBackend& ucx, const Status& started)
      TOWPATH_REQUIRES(mutex_);
  Status add_posix(agent::Agent& agent, NixlBackend& gds, const Status& started)
      TOWPATH_REQUIRES(mutex_);
  Status bring(agent::Agent& agent, const Companion& companion) TOWPATH_REQUIRES(mutex_);
  bool may_share_memory(const NixlBackend& ucx) const;

  const backend::Registry& registry_;
  const std::string transports_;  // UCX_TLS
  const std::string security_;    // TOWPATH_SECURITY: tcp's parameter
  const telemetry::Log log_;
  const NixlMachine machine_;

  mutable run::Mutex mutex_;
  std::vector<Running> running_ TOWPATH_GUARDED_BY(mutex_);
  std::deque<NixlBackend> created_ TOWPATH_GUARDED_BY(mutex_);  // a deque, which moves none
};

/// All types of these, each once, the preferred ones first: what a request may be moved by.
std::vector<std::string> types_of(std::span<const NixlBackend> backends);
/// The memory that any of those takes which serve `backend`. Errors: not_found (it is none of
/// `agent`).
Result<std::vector<MemoryKind>> kinds_of(const agent::Agent& agent, const NixlBackend& backend);

/// ok if one of these types carries notifications, or none is named. A message is the agent's,
/// whichever backend brings it: those that are named only have to be able to. Errors: unavailable,
/// not_found (one is none of `agent`).
Status check_notifications(const agent::Agent& agent, std::span<const std::string> types);

/// Whether UCX_TLS, or a list like it, leaves UCX a way through the memory of the host.
bool shares_memory(std::string_view transports);

}  // namespace towpath::nixl
