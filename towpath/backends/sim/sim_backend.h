// sim: stands for any backend, between agents of one process, over a simulated network. See
// README.md.
// Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <memory>

#include <towpath/backend/registry.h>
#include <towpath/backends/sim/network.h>

namespace towpath::backends::sim {

/// Backends opened through types with the same network reach each other.
backend::BackendType sim_type(std::shared_ptr<Network> network);

}  // namespace towpath::backends::sim
