// Messages over UCX, the one door to libucp. Memory of users is never given to it: a message leaves
// from its buffer, and is shown where it came, in UCX's own segment, if it came in one; or it
// leaves from a room of a GPU's, and arrives in one, where UCX was built with CUDA.
//
// libucp is opened at run time by its soname, with symbols of its own (RTLD_LOCAL), and stays open;
// a copy that the process has loaded already is the one that is used.
// Thread: one at a time (the worker is made as UCS_THREAD_MODE_SERIALIZED).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include <towpath/core/finding.h>
#include <towpath/net/messages/message_worker.h>
#include <towpath/net/ucx/ucx_options.h>

namespace towpath::net {

/// `listener` must outlive the worker.
/// Errors: unsupported (built without UCX, libucp not found, no such transport, it takes no GPU's
/// memory), invalid_argument
/// (a value that UCX does not take, a device that it does not know), exhausted.
Result<std::unique_ptr<MessageWorker>> open_ucx_worker(const UcxOptions& options,
                                                       MessageListener& listener);

/// Whether UCX can be used here, and which.
Finding probe_ucx();
/// Whether it takes the memory of a GPU.
Finding probe_ucx_devices();

}  // namespace towpath::net
