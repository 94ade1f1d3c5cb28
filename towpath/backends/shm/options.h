// What a user may say when he opens the backend.
// Thread: immutable.
#pragma once

#include <cstddef>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backend/registry.h>
#include <towpath/core/result.h>

namespace towpath::backends::shm {

struct BackendOptions {
  // Which paths are allowed.
  bool mapped = true;
  bool process = true;
  std::size_t copy_threads = 1;  ///< that copy by process_vm, at most

  /// Errors: invalid_argument (a value that is none of those described).
  static Result<BackendOptions> parse(const backend::Params& params);
  static std::vector<backend::ParamInfo> describe();
};

}  // namespace towpath::backends::shm
