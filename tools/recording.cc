#include "tools/recording.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <towpath/core/format.h>
#include <towpath/sys/line_reader.h>

namespace towpath::tools {
namespace {

constexpr std::size_t kMaxName = 1024;
constexpr std::array kOutcomes = {Outcome::none,      Outcome::done,      Outcome::failed,
                                  Outcome::cancelled, Outcome::timed_out, Outcome::peer_lost};

bool is_safe(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') ||
         std::string_view("-_.%").find(letter) != std::string_view::npos;
}

/// Takes the columns of a line, one after another.
class Columns {
 public:
  explicit Columns(std::string_view line) : rest_(line) {}

  Status number(std::uint64_t& into) {
    const std::string_view text = next();
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), into);
    if (failed == std::errc() && !text.empty() && end == text.data() + text.size()) return {};
    return fault("expected a whole number of at most 64 bits", text);
  }
  Status time(Duration& into) {
    std::uint64_t count = 0;
    TOWPATH_TRY(number(count));
    if (count > INT64_MAX) return fault("expected a time of less than 292 years", cat(count));
    into = Duration(static_cast<std::int64_t>(count));
    return {};
  }
  Status name(std::string& into, std::size_t least) {
    into = next();
    if (into.size() >= least && into.size() <= kMaxName && std::ranges::all_of(into, is_safe))
      return {};
    return fault("expected a name of letters, digits and -_.%", into);
  }
  template <typename Value, typename Find>
  Status one_of(Value& into, const Find& find) {
    const std::string_view text = next();
    const std::optional<Value> found = find(text);
    if (!found || name_of(*found) != text) return fault("expected a name that is known", text);
    into = *found;
    return {};
  }
  Status end() const {
    if (!more_) return {};
    return fault("something follows the last column", rest_);
  }

 private:
  Status fault(std::string_view what, std::string_view text) const {
    return error(Code::corrupt,
                 cat("column ", column_, ": ", what, ", not '", printable(text), "'"));
  }
  std::string_view next() {
    ++column_;
    const std::size_t end = rest_.find(',');
    const std::string_view text = rest_.substr(0, end);
    more_ = end != std::string_view::npos;
    rest_.remove_prefix(more_ ? end + 1 : rest_.size());
    return text;
  }

  std::string_view rest_;
  std::size_t column_ = 0;
  bool more_ = false;
};

std::optional<Outcome> outcome_named(std::string_view name) {
  const auto found = std::ranges::find_if(kOutcomes, [&](Outcome o) { return name_of(o) == name; });
  return found == kOutcomes.end() ? std::nullopt : std::optional(*found);
}

Result<sys::LineReader> open_lines(const std::string& path) {
  static sys::SystemFileSystem files;  // without state
  TOWPATH_TRY(auto file, files.open(path, {}));
  return sys::LineReader(std::move(file), kMaxRecordingLine);
}

std::string_view without_return(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

std::string format_recorded(const RecordedTransfer& transfer) {
  return cat(transfer.at.count(), ',', transfer.node, ',', transfer.peer, ',', transfer.backend,
             ',', name_of(transfer.op), ',', name_of(transfer.local), ',', name_of(transfer.remote),
             ',', transfer.bytes, ',', transfer.descriptors, ',', transfer.runs, ',',
             transfer.took.count(), ',', name_of(transfer.outcome));
}

Result<RecordedTransfer> parse_recorded(std::string_view line) {
  RecordedTransfer read;
  Columns columns(without_return(line));
  TOWPATH_TRY(columns.time(read.at));
  TOWPATH_TRY(columns.name(read.node, 1));
  TOWPATH_TRY(columns.name(read.peer, 1));
  TOWPATH_TRY(columns.name(read.backend, 0));
  TOWPATH_TRY(columns.one_of(read.op, transfer_op_from_name));
  TOWPATH_TRY(columns.one_of(read.local, memory_kind_from_name));
  TOWPATH_TRY(columns.one_of(read.remote, memory_kind_from_name));
  TOWPATH_TRY(columns.number(read.bytes));
  TOWPATH_TRY(columns.number(read.descriptors));
  TOWPATH_TRY(columns.number(read.runs));
  TOWPATH_TRY(columns.time(read.took));
  TOWPATH_TRY(columns.one_of(read.outcome, outcome_named));
  TOWPATH_TRY(columns.end());
  return read;
}

bool is_recording(const std::string& path) {
  auto lines = open_lines(path);
  if (!lines.ok()) return false;
  const auto first = lines->next();
  return first.ok() && *first && without_return(**first) == kRecordingTitles;
}

Result<std::vector<RecordedTransfer>> read_recording(const std::string& path, std::uint64_t limit) {
  TOWPATH_TRY(sys::LineReader lines, open_lines(path));
  TOWPATH_TRY(const auto first, lines.next());
  if (!first || without_return(*first) != kRecordingTitles)
    return error(Code::corrupt, cat(printable(path, 256), " is no recording of transfers"),
                 "pass a file that `towpath record` wrote");
  std::vector<RecordedTransfer> all;
  while (limit == 0 || all.size() < limit) {
    TOWPATH_TRY(const auto line, lines.next());
    if (!line) break;
    if (all.size() == kMaxRecorded)
      return error(Code::out_of_range,
                   cat(printable(path, 256), " has more than ", kMaxRecorded, " transfers"),
                   "replay a part of it with --limit");
    auto read = parse_recorded(*line);
    if (!read.ok())
      return error(
          read.code(),
          cat(printable(path, 256), ", line ", lines.line(), ", ", read.status().message()),
          cat("a line has the columns ", kRecordingTitles));
    all.push_back(*std::move(read));
  }
  return all;
}

}  // namespace towpath::tools
