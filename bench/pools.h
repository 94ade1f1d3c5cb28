// Pools: two agents of this process over shm, each with memory in many regions, for what needs no
// peer process: making transfers moves no bytes.
//
//   region 0   [block] .. [block] ..        every block is followed by as much that is not used,
//   gap                                     and regions do not touch: nothing merges by chance
//   region 1   [block] .. [block] ..
//
// Thread: one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/memory/shared_region.h>
#include <towpath/standard/standard.h>

namespace towpath::bench {

struct PoolShape {
  std::uint64_t blocks = 0;   ///< in all; a multiple of regions
  std::uint64_t regions = 1;  ///< at most as many
  std::uint64_t block_bytes = 4096;
};

class Pools {
 public:
  explicit Pools(const PoolShape& shape);

  agent::Agent& agent() { return left_->agent(); }
  const Clock& clock() const { return left_->clock(); }
  const PoolShape& shape() const noexcept { return shape_; }

  // All blocks, region by region: one descriptor each, or one strided descriptor per region.
  DescriptorList blocks_here() const { return blocks(*left_memory_); }
  DescriptorList blocks_there() const { return blocks(*right_memory_); }
  DescriptorList strided_here() const { return strided(*left_memory_); }
  DescriptorList strided_there() const { return strided(*right_memory_); }
  const std::string& peer() const { return right_->agent().name(); }

 private:
  std::uint64_t region_stride() const;
  DescriptorList blocks(const memory::Region& memory) const;
  DescriptorList strided(const memory::Region& memory) const;
  void register_all(standard::Node& node,
                    const std::shared_ptr<memory::SharedMemoryRegion>& memory);

  const PoolShape shape_;
  std::unique_ptr<standard::Node> left_;
  std::unique_ptr<standard::Node> right_;
  std::shared_ptr<memory::SharedMemoryRegion> left_memory_;
  std::shared_ptr<memory::SharedMemoryRegion> right_memory_;
  std::vector<memory::Registration> known_;
};

}  // namespace towpath::bench
