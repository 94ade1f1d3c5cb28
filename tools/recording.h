// Recording: a stream of transfers as an engine made them: when, between whom, how much, in how
// many pieces, and how long it took. No payload. docs/formats/recording.md draws it; `towpath
// record` writes one, `towpath replay` repeats it.
//
// Recordings come from outside: lines are bounded, and a fault is named with its column.
// Thread: immutable; functions any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/memory_kind.h>
#include <towpath/core/result.h>
#include <towpath/core/transfer_state.h>

namespace towpath::tools {

struct RecordedTransfer {
  Duration at{0};       ///< when it was posted, since the recording began
  std::string node;     ///< whose transfer it is; names as path_safe() spells them
  std::string peer;     ///< `node` again: its own files or memory
  std::string backend;  ///< empty: unknown
  TransferOp op = TransferOp::read;
  MemoryKind local = MemoryKind::system;
  MemoryKind remote = MemoryKind::system;
  std::uint64_t bytes = 0;
  std::uint64_t descriptors = 0;
  std::uint64_t runs = 0;  ///< extents without a gap; 0: unknown
  Duration took{0};        ///< 0: it had not ended
  Outcome outcome = Outcome::none;

  friend bool operator==(const RecordedTransfer&, const RecordedTransfer&) = default;
};

/// The first line of a recording.
inline constexpr std::string_view kRecordingTitles =
    "at_ns,node,peer,backend,op,local,remote,bytes,descriptors,runs,took_ns,outcome";
inline constexpr std::size_t kMaxRecordingLine = 4096;
inline constexpr std::size_t kMaxRecorded = std::size_t{1} << 20U;

/// One line, without its end.
std::string format_recorded(const RecordedTransfer& transfer);
/// Errors: corrupt, with the column.
Result<RecordedTransfer> parse_recorded(std::string_view line);

/// Whether the file begins as a recording does; false also for one that cannot be read.
bool is_recording(const std::string& path);
/// In the order of the lines, which is mostly that in which they ended; the first `limit` of them,
/// or all for 0.
/// Errors: corrupt (file, line and column are named), out_of_range (more than kMaxRecorded), or
/// those of reading.
Result<std::vector<RecordedTransfer>> read_recording(const std::string& path,
                                                     std::uint64_t limit = 0);

}  // namespace towpath::tools
