#include "tools/traces/trace_table.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include <towpath/core/format.h>

namespace towpath::traces {
namespace {

constexpr std::string_view kTitles[][3] = {{"TIMESTAMP", "ContextTokens", "GeneratedTokens"},
                                           {"Timestamp", "Request tokens", "Response tokens"}};

std::string_view without_space(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Status fault_at(std::size_t column, std::string_view what) {
  return error(Code::corrupt, cat("column ", column + 1, ": ", what));
}

Status fault_in(std::string_view text, std::size_t column, std::string_view wanted) {
  return fault_at(column, cat("expected ", wanted, ", not '", printable(text), "'"));
}

std::optional<std::uint64_t> whole(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, number);
  return failed == std::errc() && rest == end && !text.empty() ? std::optional(number)
                                                               : std::nullopt;
}

/// Of digits at a fixed place, as in "2023-11-16 18:17:03".
std::optional<unsigned> digits(std::string_view text, std::size_t at, std::size_t count) {
  const auto number = at + count <= text.size() ? whole(text.substr(at, count)) : std::nullopt;
  return number ? std::optional(static_cast<unsigned>(*number)) : std::nullopt;
}

/// "2023-11-16 18:17:03.9799600", perhaps with "+00:00" or "Z", in milliseconds since 1970.
std::optional<std::uint64_t> milliseconds_of_date(std::string_view text) {
  for (const std::string_view zone : {"+00:00", "Z"})
    if (text.ends_with(zone)) text.remove_suffix(zone.size());
  constexpr std::string_view kShape = "0000-00-00 00:00:00";
  if (text.size() < kShape.size()) return std::nullopt;
  for (std::size_t i = 0; i < 17; ++i)
    if (kShape[i] != '0' && text[i] != kShape[i] && !(i == 10 && text[i] == 'T'))
      return std::nullopt;
  const auto year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
  const auto hour = digits(text, 11, 2), minute = digits(text, 14, 2);
  const auto rest = milliseconds_of(text.substr(17));
  if (!year || !month || !day || !hour || !minute || !rest) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(*month), std::chrono::day(*day)};
  if (!date.ok() || *year < 1970 || *hour > 23 || *minute > 59 || *rest >= 61'000)
    return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::uint64_t minutes = (static_cast<std::uint64_t>(days) * 24 + *hour) * 60 + *minute;
  return minutes * 60'000 + *rest;
}

}  // namespace

Result<std::optional<Request>> TraceTable::parse(std::string_view line) {
  std::vector<Cell> cells;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(',', at), line.size());
    std::string_view text = without_space(line.substr(at, end - at));
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
      text = text.substr(1, text.size() - 2);
    cells.push_back({text, at});
    at = end + 1;
  }
  if (!titled_) {
    TOWPATH_TRY(take_titles(cells));
    return std::optional<Request>();
  }
  const std::size_t last = std::max({columns_[time], columns_[input], columns_[output]});
  if (cells.size() <= last)
    return fault_at(line.size(), cat("the line ends after ", cells.size(), " cells"));
  Request request;
  TOWPATH_TRY(request.timestamp_ms, time_of(cells[columns_[time]]));
  const auto count = [&](Wanted which, std::uint64_t& into) -> Status {
    const Cell& cell = cells[columns_[which]];
    const auto number = whole(cell.text);
    if (!number) return fault_in(cell.text, cell.column, "a whole number of tokens");
    into = *number;
    return {};
  };
  TOWPATH_TRY(count(input, request.input_length));
  TOWPATH_TRY(count(output, request.output_length));
  TOWPATH_TRY(make_up_blocks(request, cells[columns_[input]]));
  return std::optional<Request>(std::move(request));
}

Status TraceTable::take_titles(const std::vector<Cell>& cells) {
  const auto& wanted = kTitles[format_ == TraceFormat::azure ? 0 : 1];
  for (std::size_t i = 0; i < kWanted; ++i) {
    const auto found = std::ranges::find(cells, wanted[i], &Cell::text);
    if (found == cells.end()) return fault_at(0, cat("no column is titled '", wanted[i], "'"));
    columns_[i] = static_cast<std::size_t>(found - cells.begin());
  }
  titled_ = true;
  return {};
}

Result<std::uint64_t> TraceTable::time_of(const Cell& cell) {
  if (format_ == TraceFormat::burstgpt) {
    const auto ms = milliseconds_of(cell.text);
    if (!ms) return fault_in(cell.text, cell.column, "seconds");
    return *ms;
  }
  const auto ms = milliseconds_of_date(cell.text);
  if (!ms) return fault_in(cell.text, cell.column, "a time such as 2023-11-16 18:17:03.97996");
  if (!first_ms_) first_ms_ = ms;
  if (*ms < *first_ms_) return fault_at(cell.column, "a time before that of the first request");
  return *ms - *first_ms_;
}

Status TraceTable::make_up_blocks(Request& request, const Cell& from) {
  const std::uint64_t tokens = tokens_per_block(format_);
  const std::uint64_t blocks = request.input_length / tokens + (request.input_length % tokens != 0);
  if (blocks > kMaxHashIds)
    return fault_at(from.column, cat("a prompt of more than ", kMaxHashIds * tokens, " tokens"));
  for (std::uint64_t i = 0; i < blocks; ++i) request.hash_ids.push_back(next_id_++);
  return {};
}

}  // namespace towpath::traces
