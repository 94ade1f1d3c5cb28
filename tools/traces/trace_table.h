// TraceTable: traces that are tables, a line of titles and a line per request, with commas: Azure's
// and BurstGPT's. Columns are found by title, in any order; others are skipped.
//
// Blocks are not named there: each prompt gets ids that no other has, one per 512 tokens.
// Lines come from outside: they are bounded by the reader, and a fault is reported with its column.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/traces/trace.h"
#include "tools/traces/trace_format.h"

namespace towpath::traces {

class TraceTable {
 public:
  /// `format` is one that is a table.
  explicit TraceTable(TraceFormat format) : format_(format) {}

  /// Nothing for the line of titles, which is the first. Errors: corrupt, with the column.
  Result<std::optional<Request>> parse(std::string_view line);

 private:
  struct Cell {
    std::string_view text;
    std::size_t column = 0;  // where it begins, from 0 on
  };
  enum Wanted : std::uint8_t { time, input, output };
  static constexpr std::size_t kWanted = 3;

  Status take_titles(const std::vector<Cell>& cells);
  Result<std::uint64_t> time_of(const Cell& cell);
  Status make_up_blocks(Request& request, const Cell& from);

  const TraceFormat format_;
  bool titled_ = false;
  std::size_t columns_[kWanted] = {};  // which cell holds what
  std::optional<std::uint64_t> first_ms_;
  std::uint64_t next_id_ = 0;
};

}  // namespace towpath::traces
