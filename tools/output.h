// Output: where a command writes what was asked for, a file or standard output. What could not be
// written (a full disk, a closed pipe) is an error, reported by close() at the latest.
// Thread: none of its own.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include <towpath/core/result.h>

namespace towpath::tools {

class Output {
 public:
  /// "-" is standard output. A file is cut. Errors: io_error.
  static Result<Output> open(const std::string& path);
  /// Whether open() will do, as far as that can be known before: nothing is cut, and nothing stays.
  /// No path is none to write. Errors: io_error.
  static Status check(const std::string& path);

  Status write(std::string_view text);
  /// What was written is where a reader sees it.
  Status flush();
  /// Only now is known whether all of it was written.
  Status close();
  /// Whether a person looks at it now: colours are for them.
  bool is_terminal() const;

 private:
  struct Closer {
    void operator()(std::FILE* file) const;
  };
  Output(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}

  std::unique_ptr<std::FILE, Closer> file_;
  std::string path_;
};

/// That a directory is there which a user named for files that go again: a mistyped one is not
/// made. `flag`: by which it was named. Errors: not_found.
Status check_directory(const std::string& path, std::string_view flag);

/// All of `text` to standard output.
Status print(std::string_view text);
/// Indented, keys as they were added; bytes that are not UTF-8 are replaced. `path` as in open().
Status write_json(const std::string& path, const nlohmann::ordered_json& value);

}  // namespace towpath::tools
