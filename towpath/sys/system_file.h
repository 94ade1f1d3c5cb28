// A File of the kernel; made by SystemFileSystem, or around a descriptor that came from elsewhere.
// Thread: any.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <towpath/sys/fd.h>
#include <towpath/sys/file.h>
#include <towpath/sys/own_process.h>

namespace towpath::sys {

class SystemFile final : public File {
 public:
  struct Parts {
    Fd fd;
    std::string path;
    std::uint64_t alignment = 1;  ///< more than 1: opened with O_DIRECT
    std::string direct_refusal;
  };

  explicit SystemFile(Parts parts) noexcept : parts_(std::move(parts)) {}
  ~SystemFile() override;
  SystemFile(const SystemFile&) = delete;
  SystemFile& operator=(const SystemFile&) = delete;

  Result<std::size_t> read_at(ByteSpan into, std::uint64_t offset) override;
  Result<std::size_t> write_at(ConstByteSpan from, std::uint64_t offset) override;
  Status sync() override;
  void start_sync() override;
  void drop_cache(const FdRange& range) override;
  Status lock() override;
  Status lock_for_process() override;
  Status mark_in_use() override;
  Result<bool> in_use() override;
  Result<std::uint64_t> size() override;
  Status resize(std::uint64_t size_bytes) override;
  Status preallocate(std::uint64_t size_bytes) override;
  int fd() const noexcept override { return parts_.fd.get(); }
  const std::string& path() const noexcept override { return parts_.path; }
  bool direct() const noexcept override { return parts_.alignment > 1; }
  const std::string& direct_refusal() const noexcept override { return parts_.direct_refusal; }
  std::uint64_t alignment() const noexcept override { return parts_.alignment; }

 private:
  /// For file systems that cannot reserve: zeros from `from` up to `until`.
  Status fill_with_zeros(std::uint64_t from, std::uint64_t until);
  Status failed(const char* verb, int errno_value) const;

  Parts parts_;
  std::optional<OwnProcess> locked_by_;  ///< that called lock() or mark_in_use()
};

}  // namespace towpath::sys
