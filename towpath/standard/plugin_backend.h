// A backend behind the C interface of plugin_abi.h, as a backend type of ours.
// Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <memory>

#include <towpath/backend/registry.h>
#include <towpath/standard/plugin_abi.h>

namespace towpath::standard {

/// `keep_loaded` is held by the type and by every backend that it opens.
/// Errors: unsupported (too small a description: made for another version), invalid_argument (no
/// name, no routes, a kind that is none, a function that is missing).
Result<backend::BackendType> plugin_type(const towpath_backend_v1_t& plugin,
                                         std::shared_ptr<void> keep_loaded);

}  // namespace towpath::standard
