// What a BlockStore wants moved: requests for a sys::FileDevice, with what the store must know when
// they have ended. Each is the caller's, and stays where it is from BlockStore::begin() until
// BlockStore::end().
// Thread: none of its own.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <towpath/kv/disk/segment_format.h>
#include <towpath/sys/file_device.h>

namespace towpath::kv {

struct PlacedRecord {
  Record record;
  std::uint64_t segment = 0;  ///< its number
  std::uint64_t offset = 0;   ///< there
};

/// A record on its way to a segment: its header and the block's bytes, in one write.
struct RecordWrite : PlacedRecord {
  alignas(kSegmentPage) std::array<std::byte, kSegmentPage> header;
  sys::FileRequest request;
};

/// A block on its way from a segment; proven at its end.
struct BlockRead : PlacedRecord {
  ByteSpan into;
  sys::FileRequest request;
};

/// The records that had been written when it began, on their way to being acknowledged.
struct SegmentSync {
  std::uint64_t segment = 0;
  std::vector<PlacedRecord> blocks;
  bool has_removals = false;
  sys::FileRequest request;
};

}  // namespace towpath::kv
