// LineReader: the lines of a file that came from outside, one after another and bounded.
// Thread: none of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <towpath/sys/file.h>

namespace towpath::sys {

class LineReader {
 public:
  LineReader(std::unique_ptr<File> file, std::size_t max_line_bytes)
      : file_(std::move(file)), max_line_bytes_(max_line_bytes) {}

  /// The next line that is not blank, without its end; nothing at the end of the file. It lives
  /// until the next call. A byte order mark before the first line is skipped.
  /// Errors: corrupt (a line is too long), or the File's.
  Result<std::optional<std::string_view>> next();
  /// Which line next() gave last, from 1 on.
  std::uint64_t line() const noexcept { return line_; }
  const std::string& path() const noexcept { return file_->path(); }

 private:
  Status read_more();

  std::unique_ptr<File> file_;
  std::size_t max_line_bytes_;
  std::string buffer_;
  std::size_t used_ = 0;  // of buffer_
  std::uint64_t offset_ = 0;
  std::uint64_t line_ = 0;
  bool at_end_ = false;
};

}  // namespace towpath::sys
