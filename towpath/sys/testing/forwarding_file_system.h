// For tests: the kernel's files, of which a test changes one call. Thread: any.
#pragma once

#include <towpath/sys/file.h>

namespace towpath::sys::testing {

class ForwardingFileSystem : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, const OpenFile& options) override {
    return files_.open(path, options);
  }
  Result<std::unique_ptr<File>> open_temporary(const OpenTemporary& options) override {
    return files_.open_temporary(options);
  }
  Status remove(const std::string& path) override { return files_.remove(path); }
  Status rename(const Rename& names) override { return files_.rename(names); }
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
  PathKind kind_of(const std::string& path) override { return files_.kind_of(path); }
  std::optional<FileIdentity> identity_of(const std::string& path) override {
    return files_.identity_of(path);
  }

 private:
  SystemFileSystem files_;
};

}  // namespace towpath::sys::testing
