// The two kinds of memory that this backend registers: a GPU's, and a stretch of a file.
// Invariants: no I/O touches one that dies. Thread: loop.
#pragma once

#include <memory>
#include <string>

#include <towpath/backend/backend.h>
#include <towpath/backend/memory_table.h>
#include <towpath/backends/gds/gds_file.h>
#include <towpath/device/device.h>

namespace towpath::backends::gds {

class GdsMemory : public backend::Memory {
 public:
  explicit GdsMemory(MemoryKind kind) noexcept : kind_(kind) {}
  GdsMemory(const GdsMemory&) = delete;
  GdsMemory& operator=(const GdsMemory&) = delete;
  MemoryKind kind() const noexcept { return kind_; }

 private:
  const MemoryKind kind_;
};

/// Memory of a GPU, registered with libcufile where that works: else each I/O goes through a
/// registered buffer of the library's own, on the GPU.
class DeviceMemory final : public GdsMemory {
 public:
  static std::unique_ptr<DeviceMemory> make(std::shared_ptr<const CuFile> cufile,
                                            std::shared_ptr<device::Device> device,
                                            const RegionDescriptor& region);
  DeviceMemory(std::shared_ptr<const CuFile> cufile, std::shared_ptr<device::Device> device,
               const RegionDescriptor& region)
      : GdsMemory(MemoryKind::device),
        cufile_(std::move(cufile)),
        device_(std::move(device)),
        address_(region.address) {}
  ~DeviceMemory() override;

  void* base() const noexcept { return bytes_at(address_, 0).data(); }
  std::uint64_t address() const noexcept { return address_; }
  device::Device& device() const noexcept { return *device_; }
  /// Why it is not registered; empty: it is.
  const std::string& refusal() const noexcept { return refusal_; }

 private:
  const std::shared_ptr<const CuFile> cufile_;
  const std::shared_ptr<device::Device> device_;
  const std::uint64_t address_;
  std::string refusal_;
};

/// What a registration of a stretch of a file and its imports have in common.
struct FileRecord : backend::RegisteredRegion {
  using RegisteredRegion::RegisteredRegion;
  std::shared_ptr<GdsFile> file;
  bool registered = true;
};
using FileTable = backend::MemoryTable<FileRecord>;

class FileMemory final : public GdsMemory {
 public:
  /// An import from ourselves; with a `table`, the registration itself.
  FileMemory(std::shared_ptr<FileRecord> record, FileTable* table) noexcept
      : GdsMemory(MemoryKind::disk), record_(std::move(record)), table_(table) {}
  /// A registration takes the imports' right to the file along.
  ~FileMemory() override;

  Bytes key() const override { return backend::key_of(*record_); }
  const FileRecord& record() const noexcept { return *record_; }
  const GdsFile& file() const noexcept { return *record_->file; }

 private:
  const std::shared_ptr<FileRecord> record_;
  FileTable* const table_;
};

}  // namespace towpath::backends::gds
