#include <algorithm>
#include <array>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/layout/plan.h>

namespace towpath::layout {
namespace {

constexpr std::size_t kColumns = 6;
using Row = std::array<std::string, kColumns>;

std::string place_text(std::uint64_t region, std::uint64_t offset) {
  return cat("region ", region, " +", offset);
}

Row row_of(const CopyRun& run) {
  const bool strided = run.count > 1;
  return {place_text(run.source_region, run.source_offset),
          place_text(run.target_region, run.target_offset),
          cat(run.length),
          cat(run.count),
          strided ? cat(run.source_stride) : "-",
          strided ? cat(run.target_stride) : "-"};
}

// Places are left-aligned, numbers right-aligned.
void append_row(std::string& out, const Row& row, const std::array<std::size_t, kColumns>& widths) {
  for (std::size_t c = 0; c < kColumns; ++c) {
    const std::string padding(widths[c] - row[c].size(), ' ');
    out += c == 0 ? "  " : "   ";
    out += c < 2 ? row[c] + padding : padding + row[c];
  }
  out += '\n';
}

}  // namespace

std::string to_string(const Plan& plan, std::size_t max_rows) {
  std::string out = cat("plan: ", plan.runs().size(), " runs, ", plan.pieces(), " pieces, ",
                        format_bytes(plan.bytes()), "\n");
  if (plan.empty() || max_rows == 0) return out;
  std::vector<Row> rows = {
      {"source", "target", "length", "count", "source stride", "target stride"}};
  for (const CopyRun& run : plan.runs().first(std::min(max_rows, plan.runs().size())))
    rows.push_back(row_of(run));
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows)
    for (std::size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], row[c].size());
  for (const Row& row : rows) append_row(out, row, widths);
  if (plan.runs().size() > max_rows)
    out += cat("  ... and ", plan.runs().size() - max_rows, " more runs\n");
  return out;
}

}  // namespace towpath::layout
