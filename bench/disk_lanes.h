// DiskLanes: an agent with a posix backend that keeps `depth` transfers between memory and a file
// in flight, each made by index, posted, and followed by the next when it has ended: what fio does
// with its I/Os. Thread: one.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/memory/disk_region.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/standard.h>

#include "bench/fio.h"

namespace towpath::bench {

inline constexpr std::uint64_t kLaneMemory = std::uint64_t{64} << 20U;  ///< of all lanes together

class DiskLanes {
 public:
  /// Makes the file and fills it, past the page cache where the file system can. `params` are the
  /// posix backend's.
  DiskLanes(DiskFile file, const backend::Params& params);

  const DiskFile& file() const noexcept { return file_; }
  /// Empty, or why there are no direct figures.
  const std::string& direct_refusal() const { return direct_->direct_refusal(); }
  /// How bytes go, in words.
  std::string path();
  /// Whether I/Os past the page cache are of registered buffers.
  bool registers() { return path().find(", registered buffer;") != std::string::npos; }

  /// Brings all of the file into the page cache.
  void warm();
  /// Leaves no page of it dirty.
  void settle();
  /// `load.block_bytes * load.depth` is at most kLaneMemory.
  DiskFigure run(const DiskLoad& load);

 private:
  struct Sides {
    agent::PreparedList memory;
    agent::PreparedList file;
    std::uint64_t blocks = 0;
  };
  void fill();
  Sides prepare(const DiskLoad& load);
  agent::Transfer start(const Sides& sides, const DiskLoad& load, std::uint32_t lane);

  const DiskFile file_;
  sys::SystemFileSystem files_;
  std::unique_ptr<standard::Node> node_;
  std::shared_ptr<memory::SystemRegion> memory_;
  std::shared_ptr<memory::DiskRegion> direct_;
  std::shared_ptr<memory::DiskRegion> buffered_;
  std::vector<memory::Registration> known_;
  std::minstd_rand random_;
};

}  // namespace towpath::bench
