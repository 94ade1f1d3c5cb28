#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/trace_reader.h>

namespace towpath::kv {
namespace {

constexpr std::string_view kByteOrderMark =
    "\xef\xbb\xbf";  // which some programs begin a file with

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
  auto file = files.open(path, {});
  if (!file.ok()) {
    return error(file.code(), cat("cannot open the trace ", printable(path, 256)),
                 "give a file in Mooncake's format, or let `towpath trace generate` make one")
        .because(file.status());
  }
  std::unique_ptr<TraceReader> reader(new TraceReader(*std::move(file), path));
  TOWPATH_TRY(reader->choose(format));
  return reader;
}

// Looks at the first line, and keeps it for next().
Status TraceReader::choose(std::optional<TraceFormat> format) {
  TOWPATH_TRY(const auto first, next_line());
  if (first && !format) {
    format = format_of(*first);
    if (!format) {
      return error(Code::corrupt,
                   cat(printable(path_, 256), ", line ", line_,
                       ", column 1: no known format begins like '", printable(*first), "'"),
                   "pass a trace of Mooncake, Bailian, Azure or BurstGPT; --format says which");
    }
  }
  format_ = format.value_or(TraceFormat::mooncake);
  if (!names_blocks(format_)) table_.emplace(format_);
  if (first) first_.emplace(*first);
  return {};
}

Result<bool> TraceReader::read_more() {
  constexpr std::size_t kChunk = 64 * 1024;
  buffer_.erase(0, std::exchange(used_, 0));
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kChunk);
  const ByteSpan room = std::as_writable_bytes(std::span(buffer_)).subspan(before);
  TOWPATH_TRY(const std::size_t got, file_->read_at(room, offset_));
  buffer_.resize(before + got);
  offset_ += got;
  at_end_ = got == 0;
  return !at_end_;
}

Result<std::optional<std::string_view>> TraceReader::next_line() {
  while (true) {
    const std::size_t end = buffer_.find('\n', used_);
    if (end == std::string::npos && !at_end_) {
      if (buffer_.size() - used_ > kMaxTraceLine) {
        return error(Code::corrupt, cat(printable(path_, 256), ", line ", line_ + 1,
                                        " is longer than ", kMaxTraceLine, " bytes"));
      }
      TOWPATH_TRY(read_more());
      continue;
    }
    const std::size_t stop = end == std::string::npos ? buffer_.size() : end;
    std::string_view line = std::string_view(buffer_).substr(used_, stop - used_);
    if (line.empty() && end == std::string::npos) return std::optional<std::string_view>();
    used_ = end == std::string::npos ? stop : end + 1;
    if (++line_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) return std::optional(line);
  }
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
      TOWPATH_TRY(line, next_line());
    }
    if (!line) return std::optional<Request>();
    auto request = parse(*line);
    if (!request.ok()) {
      return error(Code::corrupt,
                   cat(printable(path_, 256), ", line ", line_, ", ", request.status().message()),
                   std::string(shape_of(format_)));
    }
    if (request->has_value()) return request;
  }
}

}  // namespace towpath::kv
