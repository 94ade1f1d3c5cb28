// TornFiles: the kernel's files, of which the write of some bytes can be asked to tear: only the
// first half of it reaches the file, and nobody is notified.
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <towpath/sys/file.h>

namespace towpath::tools::replay {

class TornFiles final : public sys::FileSystem {
 public:
  /// The next write from `bytes` on tears. They are only compared.
  void tear(const std::byte* bytes) { *torn_ = bytes; }
  /// Whether it came; if not, it is not waited for any more.
  bool has_torn() { return std::exchange(*torn_, nullptr) == nullptr; }

  Result<std::unique_ptr<sys::File>> open(const std::string& path,
                                          const sys::OpenFile& options) override;
  Result<std::unique_ptr<sys::File>> open_temporary(const sys::OpenTemporary& options) override {
    return files_.open_temporary(options);
  }
  Status remove(const std::string& path) override { return files_.remove(path); }
  Status rename(const sys::Rename& names) override { return files_.rename(names); }
  Status make_directories(const std::string& path) override {
    return files_.make_directories(path);
  }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    return files_.list(directory);
  }
  Status sync_directory(const std::string& directory) override {
    return files_.sync_directory(directory);
  }
  Result<std::uint64_t> available_bytes(const std::string& path) override {
    return files_.available_bytes(path);
  }

 private:
  sys::SystemFileSystem files_;
  // Of the write that is to tear. Files may outlive this.
  const std::shared_ptr<const std::byte*> torn_ = std::make_shared<const std::byte*>(nullptr);
};

}  // namespace towpath::tools::replay
