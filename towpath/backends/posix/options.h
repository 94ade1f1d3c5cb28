// The parameters of a posix backend, read and checked.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/backend/registry.h>
#include <towpath/run/file_engines.h>

namespace towpath::backends::posix {

/// Which I/Os use memory that is pinned with the engine.
enum class BufferUse {
  automatic,  ///< those that go past the page cache
  on,         ///< all
  off,        ///< none; then nothing is pinned
};

struct BackendOptions {
  run::FileEngineKind engine = run::FileEngineKind::automatic;
  std::uint32_t depth = 64;                 ///< I/Os at a time
  std::uint64_t chunk_bytes = 1ULL << 20U;  ///< of the largest I/O
  BufferUse buffers = BufferUse::automatic;

  /// Errors: invalid_argument (a value that is none, or outside its bounds).
  static Result<BackendOptions> parse(const backend::Params& params);
  static std::vector<backend::ParamInfo> describe();
};

}  // namespace towpath::backends::posix
