// What a segment file holds, as bytes: docs/formats/kv_segment.md draws it. Pure: it sees no file.
//
//   | header, a page | record | record | ...
//   record:  | record header, a page | the block's bytes | zeros up to a page |
//
// A record header names its segment and its own offset, so that neither an old file's nor a copy's
// passes for one. What is read is hostile: bounded, and proven by the envelope's checksum.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/kv/block_id.h>
#include <towpath/kv/digest.h>

namespace towpath::kv {

inline constexpr std::uint64_t kSegmentPage = 4096;  ///< records begin at multiples of it
inline constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{1} << 30U;

struct SegmentName {
  std::uint64_t number = 0;       ///< grows with time
  std::uint64_t incarnation = 0;  ///< of the store that wrote it

  friend bool operator==(const SegmentName&, const SegmentName&) = default;
};

/// What a segment begins with.
struct SegmentHeader {
  SegmentName name;
  /// FileSlots::directory of the store's: a drive's damaged table may lead to another store's file.
  /// Empty: files are not slots, or the header is of a release that did not say it.
  std::string directory;

  friend bool operator==(const SegmentHeader&, const SegmentHeader&) = default;
};

/// Numbers rest on disk: never renumber.
enum class RecordKind : std::uint8_t {
  block = 1,
  removal = 2,  ///< the block of this hash, in records before this one, is no more
};

struct Record {
  RecordKind kind = RecordKind::block;
  BlockHash hash = 0;
  Digest digest;
  std::uint64_t length = 0;  ///< of the block; 0 for a removal

  friend bool operator==(const Record&, const Record&) = default;
};

/// Where a record header stands.
struct RecordPlace {
  SegmentName segment;
  std::uint64_t offset = 0;
};

/// How much of the segment a record takes.
std::uint64_t room_of(const Record& record);

/// A page each.
Bytes seal_segment_header(const SegmentHeader& header);
Bytes seal_record(const Record& record, const RecordPlace& place);

/// `page` is a page. Errors: corrupt, unsupported (a later version's).
Result<SegmentHeader> open_segment_header(ConstByteSpan page);
/// Errors: corrupt also for a record of another place.
Result<Record> open_record(ConstByteSpan page, const RecordPlace& place);

}  // namespace towpath::kv
