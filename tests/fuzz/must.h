// must: what fuzz targets assert. Thread: any.
#pragma once

#include <cstdlib>

namespace towpath::fuzz {

/// In every build: where it does not hold, the target has found something.
inline void must(bool holds) {
  if (!holds) std::abort();
}

}  // namespace towpath::fuzz
