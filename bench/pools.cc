#include "bench/pools.h"

#include <towpath/memory/view.h>

#include "bench/harness.h"

namespace towpath::bench {

Pools::Pools(const PoolShape& shape) : shape_(shape) {
  const auto open = [&](const char* name) {
    return must(
        standard::Node::open({.name = name, .backends = {"shm"}, .progress_thread = false}));
  };
  left_ = open("left");
  right_ = open("right");
  const memory::SharedMemoryOptions memory{.name = "bench",
                                           .size_bytes = region_stride() * shape.regions};
  left_memory_ = must(memory::SharedMemoryRegion::create(memory));
  right_memory_ = must(memory::SharedMemoryRegion::create(memory));
  register_all(*left_, left_memory_);
  register_all(*right_, right_memory_);
  must(left_->agent().load_metadata(must(right_->agent().metadata())));
  must(right_->agent().load_metadata(must(left_->agent().metadata())));
}

std::uint64_t Pools::region_stride() const {
  const std::uint64_t used = shape_.blocks / shape_.regions * 2 * shape_.block_bytes;
  return used + shape_.block_bytes;
}

void Pools::register_all(standard::Node& node,
                         const std::shared_ptr<memory::SharedMemoryRegion>& memory) {
  for (std::uint64_t i = 0; i < shape_.regions; ++i) {
    const memory::Part part{i * region_stride(), region_stride() - shape_.block_bytes};
    known_.push_back(must(node.agent().register_region(must(memory::View::create(memory, part)))));
  }
}

DescriptorList Pools::strided(const memory::Region& memory) const {
  DescriptorList list(MemoryKind::system);
  for (std::uint64_t i = 0; i < shape_.regions; ++i) {
    must(list.add(StridedDescriptor{.address = memory.descriptor().address + i * region_stride(),
                                    .length = shape_.block_bytes,
                                    .stride = 2 * shape_.block_bytes,
                                    .count = shape_.blocks / shape_.regions}));
  }
  return list;
}

DescriptorList Pools::blocks(const memory::Region& memory) const {
  const DescriptorList regions = strided(memory);
  DescriptorList list(MemoryKind::system);
  list.reserve(shape_.blocks);
  for (const StridedDescriptor& entry : regions.entries()) {
    for (std::uint64_t k = 0; k < entry.count; ++k) must(list.add(entry.at(k)));
  }
  return list;
}

}  // namespace towpath::bench
