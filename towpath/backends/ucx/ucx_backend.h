// ucx: agents of other processes and machines, over UCX. See README.md.
// Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <functional>
#include <memory>

#include <towpath/backend/registry.h>
#include <towpath/device/driver.h>
#include <towpath/net/ucx/ucx_worker.h>

namespace towpath::backends::ucx {

/// `devices`: whose memory peers may use; it is moved by its owner, here. Without them there is
/// none.
backend::BackendType ucx_type(device::DriverSource devices = {});

/// Makes a worker; in tests one that is no UCX.
using WorkerMaker = std::function<Result<std::unique_ptr<net::MessageWorker>>(
    const net::UcxOptions& options, net::MessageListener& listener)>;
backend::BackendType ucx_type(WorkerMaker make_worker, device::DriverSource devices = {});

}  // namespace towpath::backends::ucx
