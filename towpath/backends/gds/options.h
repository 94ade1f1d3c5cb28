// The parameters of a gds backend, read and checked.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <towpath/backend/registry.h>
#include <towpath/backends/gds/cufile.h>

namespace towpath::backends::gds {

/// Who calls libcufile, and how.
enum class EngineKind : std::uint8_t {
  threads,  ///< threads of ours, one I/O a call
  batch,    ///< threads of ours, many I/Os a call
  stream,   ///< the thread of progress(), into streams of the GPU
};

struct BackendOptions {
  EngineKind engine = EngineKind::threads;
  std::uint32_t threads = 8;               ///< or streams, of each GPU
  std::uint32_t batch_limit = 64;          ///< I/Os of a batch
  std::uint64_t chunk_bytes = 16U << 20U;  ///< of the largest I/O
  Compat compat = Compat::refuse;
  std::vector<std::string> directories;  ///< decided about, and reported, when it opens
  std::string library;                   ///< empty: as the loader finds it

  std::uint32_t depth() const noexcept {
    return engine == EngineKind::batch ? 2 * threads * batch_limit : 4 * threads;
  }

  /// Errors: invalid_argument (a value that is none, or outside its bounds).
  static Result<BackendOptions> parse(const backend::Params& params);
  static std::vector<backend::ParamInfo> describe();
};

}  // namespace towpath::backends::gds
