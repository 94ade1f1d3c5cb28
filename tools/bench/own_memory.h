// OwnMemory: what one side of a measurement has: host memory, pinned memory, or a GPU's, which this
// process fills and looks at over a window of host memory.
// Thread: one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <towpath/memory/region.h>

#include "tools/bench/machine.h"
#include "tools/bench/pattern.h"

namespace towpath::tools::bench {

class OwnMemory {
 public:
  /// Errors: unsupported (no GPU, and what is missing), exhausted, invalid_argument (of no such
  /// kind).
  static Result<OwnMemory> make(MemoryKind kind, const Machine& machine, std::uint64_t bytes);

  const memory::SharedRegion& region() const noexcept { return region_; }
  /// Of its first byte.
  RegionDescriptor begin() const { return region_->descriptor(); }
  std::uint64_t size() const noexcept { return window_.size(); }
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
