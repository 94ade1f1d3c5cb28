// The checkpoint of a store's index, as bytes: docs/formats/kv_index.md. It saves a restart the
// look at every record; what it says is always less than the segments say, never more, and without
// it nothing is lost. Pure: it sees no file. Thread: immutable.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/kv/disk/segment_format.h>

namespace towpath::kv {

inline constexpr std::size_t kIndexedBytes = 40;  ///< of a block, in a checkpoint

struct IndexedBlock {
  Record record;
  std::uint64_t offset = 0;  ///< of the record in its segment

  friend bool operator==(const IndexedBlock&, const IndexedBlock&) = default;
};

struct IndexedSegment {
  SegmentName name;
  std::uint64_t end = 0;  ///< records before it are known; those behind it are to be looked for
  std::vector<IndexedBlock> blocks;

  friend bool operator==(const IndexedSegment&, const IndexedSegment&) = default;
};

Bytes seal_index(const std::vector<IndexedSegment>& segments);
/// Errors: corrupt, unsupported (a later version's).
Result<std::vector<IndexedSegment>> open_index(ConstByteSpan bytes);

}  // namespace towpath::kv
