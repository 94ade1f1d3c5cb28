#include <utility>

#include <towpath/core/format.h>
#include <towpath/sys/line_reader.h>

namespace towpath::sys {
namespace {

constexpr std::string_view kByteOrderMark =
    "\xef\xbb\xbf";  // which some programs begin a file with

}  // namespace

Status LineReader::read_more() {
  constexpr std::size_t kChunk = 64 * 1024;
  buffer_.erase(0, std::exchange(used_, 0));
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kChunk);
  const ByteSpan room = std::as_writable_bytes(std::span(buffer_)).subspan(before);
  TOWPATH_TRY(const std::size_t got, file_->read_at(room, offset_));
  buffer_.resize(before + got);
  offset_ += got;
  at_end_ = got == 0;
  return {};
}

Result<std::optional<std::string_view>> LineReader::next() {
  while (true) {
    const std::size_t end = buffer_.find('\n', used_);
    if (end == std::string::npos && !at_end_) {
      if (buffer_.size() - used_ > max_line_bytes_)
        return error(Code::corrupt, cat(printable(path(), 256), ", line ", line_ + 1,
                                        " is longer than ", max_line_bytes_, " bytes"));
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

}  // namespace towpath::sys
