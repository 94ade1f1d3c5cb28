// TraceReader: the requests of a file, in whichever of the known formats it is.
//
// Traces come from outside: lines and lists are bounded, and a fault is named with file, line and
// column.
// Thread: none of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <towpath/sys/line_reader.h>

#include "tools/traces/trace.h"
#include "tools/traces/trace_format.h"
#include "tools/traces/trace_table.h"

namespace towpath::traces {

class TraceReader final : public RequestSource {
 public:
  /// Without `format` the first line shows it. Errors: those of opening and reading the file;
  /// corrupt (it looks like no format that is known).
  static Result<std::unique_ptr<TraceReader>> open(
      sys::FileSystem& files, const std::string& path,
      std::optional<TraceFormat> format = std::nullopt);

  TraceFormat format() const noexcept { return format_; }
  Result<std::optional<Request>> next() override;

 private:
  explicit TraceReader(std::unique_ptr<sys::File> file) : lines_(std::move(file), kMaxTraceLine) {}
  Status choose(std::optional<TraceFormat> format);
  Result<std::optional<Request>> parse(std::string_view line);

  sys::LineReader lines_;
  TraceFormat format_ = TraceFormat::mooncake;
  std::optional<TraceTable> table_;
  std::optional<std::string> first_;  // a line that was read, and not yet parsed
};

}  // namespace towpath::traces
