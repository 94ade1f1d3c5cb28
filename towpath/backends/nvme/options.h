// The parameters of an nvme backend, read and checked.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/backend/registry.h>

namespace towpath::backends::nvme {

struct BackendOptions {
  std::uint32_t depth = 64;  ///< commands at a time
  bool durable = false;      ///< writes go past the drive's volatile cache

  /// Errors: invalid_argument (a value that is none, or outside its bounds).
  static Result<BackendOptions> parse(const backend::Params& params);
  static std::vector<backend::ParamInfo> describe();
};

}  // namespace towpath::backends::nvme
