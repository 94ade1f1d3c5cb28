// What a BlockStore is made of. Its own affair. Thread: none of its own.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <towpath/kv/disk/block_index.h>
#include <towpath/kv/disk/block_store.h>
#include <towpath/kv/disk/index_format.h>
#include <towpath/kv/disk/record_io.h>
#include <towpath/kv/disk/segment.h>
#include <towpath/kv/disk/store_lock.h>

namespace towpath::kv {

struct BlockStore::Parts {
  StoreLock lock;                             // goes when no segment is open
  std::map<std::uint64_t, Segment> segments;  // by number: oldest first
  std::set<std::uint64_t> unopened;           // those whose headers could not be read
  BlockIndex index;
  std::vector<PlacedRecord> unacknowledged;  // in the current segment, and not being synced
};

}  // namespace towpath::kv
