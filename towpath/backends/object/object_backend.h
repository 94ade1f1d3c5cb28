// object: between host memory and the objects of an S3-compatible store. See README.md.
// Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <functional>

#include <towpath/backend/registry.h>

namespace towpath::backends::object {

/// Parameters that hold where the user gives none: what an environment and a file of credentials
/// say. Asked whenever a backend is opened or probed, since credentials change.
using UsualParams = std::function<Result<backend::Params>()>;

backend::BackendType object_type(UsualParams usual = nullptr);

}  // namespace towpath::backends::object
