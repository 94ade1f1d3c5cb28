// A trace in each of the formats: a line that is accepted is written and read again as the same
// request; a table never gives a request more blocks than a trace may have. And a recording of
// transfers: what is accepted is written and read again, and can be planned within its bounds.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "must.h"
#include "tools/replay/stream.h"
#include "tools/traces/trace.h"
#include "tools/traces/trace_format.h"
#include "tools/traces/trace_table.h"

namespace {

using towpath::fuzz::must;
using namespace towpath::traces;

void read_as_line(std::string_view line, TraceTime unit) {
  const auto request = parse_request(line, unit);
  if (!request.ok()) return;
  const auto again = parse_request(format_request(*request));
  must(again.ok() && *again == *request);
}

void read_as_table(std::string_view text, TraceFormat format) {
  TraceTable table(format);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const auto request = table.parse(text.substr(0, end));
    if (!request.ok()) return;
    must(!*request || (*request)->hash_ids.size() <= kMaxHashIds);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

void read_as_recording(std::string_view text) {
  std::vector<towpath::tools::RecordedTransfer> all;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const auto one = towpath::tools::parse_recorded(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!one.ok()) continue;
    const auto again = towpath::tools::parse_recorded(format_recorded(*one));
    must(again.ok() && *again == *one);
    all.push_back(*one);
  }
  const auto stream = towpath::tools::replay::plan_stream(all);
  if (!stream.ok()) return;
  for (const auto& move : stream->moves)
    must(move.runs > 0 && move.stride >= move.run_bytes && move.area_bytes() <= stream->area_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_as_line(text, TraceTime::milliseconds);
  read_as_line(text, TraceTime::seconds);
  read_as_table(text, TraceFormat::azure);
  read_as_table(text, TraceFormat::burstgpt);
  read_as_recording(text);
  (void)format_of(text);
  return 0;
}
