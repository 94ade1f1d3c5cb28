// The policies, each made for slots 0 to `slots` - 1 by a function of its own source, which says
// what it does. make_policy() chooses. Thread: any.
#pragma once

#include <towpath/kv/eviction/policy.h>

namespace towpath::kv {

std::unique_ptr<EvictionPolicy> make_lru(SlotId slots);
std::unique_ptr<EvictionPolicy> make_fifo(SlotId slots);
std::unique_ptr<EvictionPolicy> make_s3_fifo(SlotId slots);
std::unique_ptr<EvictionPolicy> make_lfu(SlotId slots);
std::unique_ptr<EvictionPolicy> make_multi_lru(SlotId slots);
std::unique_ptr<EvictionPolicy> make_lineage(SlotId slots);
std::unique_ptr<EvictionPolicy> make_hit_density(SlotId slots);
std::unique_ptr<EvictionPolicy> make_adaptive(SlotId slots);

}  // namespace towpath::kv
