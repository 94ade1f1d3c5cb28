// The TCP port of UCX, which no secret guards: eight bytes that anybody can send end the process,
// by an assertion inside of UCX (docs/gotchas/ucx.md). So who opens `ucx` with it is warned,
// loudly, and `doctor` reports it; NIXL's users get `ucx` without it (compat/nixl/backends.h).
// Thread: immutable.
#pragma once

#include <towpath/backend/registry.h>
#include <towpath/standard/ucx_transports.h>

namespace towpath::standard {

/// `type` (ucx, ucx_device), which warns where its transports, or else UCX_TLS of the environment,
/// open such a port.
backend::BackendType with_port_warning(backend::BackendType type);

}  // namespace towpath::standard
