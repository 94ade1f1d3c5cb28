#include "tools/traces/trace_reader.h"

#include <utility>

#include <towpath/core/format.h>

namespace towpath::traces {
namespace {

std::string_view shape_of(TraceFormat format) {
  switch (format) {
    case TraceFormat::mooncake:
      return R"(a line is {"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [...]})";
    case TraceFormat::bailian:
      return R"(a line is {"chat_id": n, "timestamp": seconds, "input_length": tokens, "hash_ids": [...], ...})";
    case TraceFormat::azure:
      return "a line is TIMESTAMP,ContextTokens,GeneratedTokens, which are the titles, too";
    case TraceFormat::burstgpt:
      return "a line has the columns Timestamp, Request tokens, Response tokens; the first line "
             "names them";
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<TraceReader>> TraceReader::open(sys::FileSystem& files,
                                                       const std::string& path,
                                                       std::optional<TraceFormat> format) {
  constexpr const char* kHint =
      "give a file in Mooncake's format, or let `towpath trace generate` make one";
  if (files.kind_of(path) == sys::PathKind::directory)
    return error(Code::not_found, cat(printable(path, 256), " is a directory"), kHint);
  auto file = files.open(path, {});
  if (!file.ok())
    return error(file.code(), cat("cannot open the trace ", printable(path, 256)), kHint)
        .because(file.status());
  std::unique_ptr<TraceReader> reader(new TraceReader(*std::move(file)));
  TOWPATH_TRY(reader->choose(format));
  return reader;
}

// Looks at the first line, and keeps it for next().
Status TraceReader::choose(std::optional<TraceFormat> format) {
  TOWPATH_TRY(const auto first, lines_.next());
  if (first && !format) {
    format = format_of(*first);
    if (!format) {
      return error(Code::corrupt,
                   cat(printable(lines_.path(), 256), ", line ", lines_.line(),
                       ", column 1: no known format begins like '", printable(*first), "'"),
                   "pass a trace of Mooncake, Bailian, Azure or BurstGPT; --format says which");
    }
  }
  format_ = format.value_or(TraceFormat::mooncake);
  if (!names_blocks(format_)) table_.emplace(format_);
  if (first) first_.emplace(*first);
  return {};
}

Result<std::optional<Request>> TraceReader::parse(std::string_view line) {
  if (table_) return table_->parse(line);
  TOWPATH_TRY(Request request,
              parse_request(line, format_ == TraceFormat::bailian ? TraceTime::seconds
                                                                  : TraceTime::milliseconds));
  return std::optional<Request>(std::move(request));
}

Result<std::optional<Request>> TraceReader::next() {
  while (true) {
    const std::optional<std::string> first = std::exchange(first_, std::nullopt);
    std::optional<std::string_view> line = first;
    if (!line) {
      TOWPATH_TRY(line, lines_.next());
    }
    if (!line) return std::optional<Request>();
    auto request = parse(*line);
    if (!request.ok()) {
      return error(Code::corrupt,
                   cat(printable(lines_.path(), 256), ", line ", lines_.line(), ", ",
                       request.status().message()),
                   std::string(shape_of(format_)));
    }
    if (request->has_value()) return request;
  }
}

}  // namespace towpath::traces
