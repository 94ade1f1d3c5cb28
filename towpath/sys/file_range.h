// FileRange: a part of a file, or of a drive, as a file of its own, whose length never changes.
//
// Several may lie in one file: what one of them writes stays inside of it, and a sync of one is a
// sync of all. Thread: any.
#pragma once

#include <memory>
#include <string>

#include <towpath/sys/file.h>

namespace towpath::sys {

class FileRange final : public File {
 public:
  struct Parts {
    std::shared_ptr<File> whole;
    FdRange range;     ///< of `whole`; of its alignment
    std::string path;  ///< what it is called
    bool writable = false;
    std::shared_ptr<const void> held;  ///< lives as long as this
  };
  explicit FileRange(Parts parts) noexcept : parts_(std::move(parts)) {}

  Result<std::size_t> read_at(ByteSpan into, std::uint64_t offset) override;
  /// Errors: exhausted (behind its end), denied (not writable).
  Result<std::size_t> write_at(ConstByteSpan from, std::uint64_t offset) override;
  Status sync() override { return parts_.whole->sync(); }
  void start_sync() override { parts_.whole->start_sync(); }
  void drop_cache(const FdRange& range) override;
  /// Those of the whole.
  Status lock() override { return parts_.whole->lock(); }
  Status lock_for_process() override { return parts_.whole->lock_for_process(); }
  Result<std::uint64_t> size() override { return parts_.range.size_bytes; }
  /// Errors: unsupported, but for the length that it has.
  Status resize(std::uint64_t size_bytes) override;
  /// Errors: exhausted.
  Status preallocate(std::uint64_t size_bytes) override;
  int fd() const noexcept override { return parts_.whole->fd(); }
  FdRange fd_range() const noexcept override { return parts_.range; }
  const std::string& path() const noexcept override { return parts_.path; }
  bool direct() const noexcept override { return parts_.whole->direct(); }
  const std::string& direct_refusal() const noexcept override {
    return parts_.whole->direct_refusal();
  }
  std::uint64_t alignment() const noexcept override { return parts_.whole->alignment(); }

 private:
  Parts parts_;
};

}  // namespace towpath::sys
