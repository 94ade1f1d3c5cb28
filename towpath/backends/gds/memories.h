// Memories: the two kinds of memory that this backend registers: a GPU's, and an extent of a file.
// Thread: loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <towpath/backend/memory_table.h>
#include <towpath/backend/piece_memory.h>
#include <towpath/backends/gds/gds_file.h>
#include <towpath/device/device.h>

namespace towpath::backends::gds {

/// Memory of a GPU, registered with libcufile where that works: else each I/O goes through a
/// registered buffer of the library's own, on the GPU.
class DeviceMemory final : public backend::PieceMemory {
 public:
  /// Whose memory it is, and by what its bytes move.
  struct Parts {
    const backend::PieceDispatcher* dispatcher = nullptr;  ///< outlives it
    std::shared_ptr<const CuFile> cufile;
    std::shared_ptr<device::Device> device;
  };
  static std::unique_ptr<DeviceMemory> make(Parts parts, const RegionDescriptor& region);
  DeviceMemory(Parts parts, const RegionDescriptor& region)
      : PieceMemory(MemoryKind::device, parts.dispatcher),
        cufile_(std::move(parts.cufile)),
        device_(std::move(parts.device)),
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

/// What a registration of an extent of a file and its imports have in common.
struct FileRecord : backend::RegisteredRegion {
  using RegisteredRegion::RegisteredRegion;
  std::shared_ptr<GdsFile> file;
  /// Lives while anything is registered under the same device id, and not revoked.
  std::shared_ptr<const backend::OpenDescriptor> named;
  bool registered = true;
};
using FileTable = backend::MemoryTable<FileRecord>;

class FileMemory final : public backend::PieceMemory {
 public:
  /// An import from ourselves; with a `table`, the registration itself.
  FileMemory(const backend::PieceDispatcher* dispatcher, std::shared_ptr<FileRecord> record,
             FileTable* table) noexcept
      : PieceMemory(MemoryKind::disk, dispatcher), record_(std::move(record)), table_(table) {}
  /// A registration takes the imports' right to the file along.
  ~FileMemory() override;

  Bytes key() const override { return backend::key_of(*record_); }
  /// Its device id may stand for another file: what is under way goes by the open file.
  void revoke() override {
    if (table_ != nullptr) record_->named.reset();
  }
  const FileRecord& record() const noexcept { return *record_; }
  const GdsFile& file() const noexcept { return *record_->file; }

 private:
  const std::shared_ptr<FileRecord> record_;
  FileTable* const table_;
};

}  // namespace towpath::backends::gds
