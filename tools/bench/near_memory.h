// NearMemory: the initiator's side of a measurement: host memory, pinned memory, or a GPU's, which
// this process fills and looks at over a window of host memory.
// Thread: one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <towpath/memory/region.h>
#include <towpath/standard/gpus.h>

#include "tools/bench/options.h"
#include "tools/bench/pattern.h"

namespace towpath::tools::bench {

/// The GPUs that the options name: this machine's, or host memory that plays one.
staging::Devices devices_of(const Options& options);

class NearMemory {
 public:
  /// Errors: unsupported (no GPU, and what is missing), exhausted.
  static Result<NearMemory> make(const Options& options, std::uint64_t bytes);

  const memory::SharedRegion& region() const noexcept { return region_; }
  /// Of its first byte.
  RegionDescriptor begin() const { return region_->descriptor(); }
  /// What has to be said of it before any figure; empty: nothing.
  const std::string& remark() const noexcept { return remark_; }

  Status fill(std::uint64_t bytes, std::uint64_t seed);
  Status poison(std::uint64_t bytes);
  Result<std::optional<std::uint64_t>> first_wrong(const Blocks& blocks);

 private:
  Status push(std::uint64_t bytes);

  memory::SharedRegion region_;
  std::shared_ptr<device::Device> device_;  // null: the window is the memory
  Bytes own_window_;
  ByteSpan window_;
  std::string remark_;
};

}  // namespace towpath::tools::bench
