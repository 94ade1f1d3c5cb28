// The folder of a run: in it lies what prefills keep on disk that nobody named a place for. Whoever
// ends last removes it, so that nothing is left when either side is killed.
// Thread: any.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include <towpath/core/text.h>

#include "tools/replay/options.h"

namespace towpath::tools::replay {

inline std::string run_folder(const Options& options) {
  return cat(options.directory, "/towpath-", options.run);
}

/// Removes it with all that is in it, at its end. Empty: nothing.
class FolderRemover {
 public:
  explicit FolderRemover(std::string path) : path_(std::move(path)) {}
  FolderRemover(const FolderRemover&) = delete;
  FolderRemover& operator=(const FolderRemover&) = delete;
  ~FolderRemover() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

 private:
  const std::string path_;
};

}  // namespace towpath::tools::replay
