// The two kinds of memory that this backend registers: bytes of this process, and an extent of an
// open file.
// Thread: loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <towpath/backend/piece_memory.h>
#include <towpath/backends/posix/open_file.h>
#include <towpath/sys/file_engine.h>

namespace towpath::backends::posix {

class Dispatcher;

/// Memory of this process, registered with the engine where that works.
class LocalMemory final : public backend::PieceMemory {
 public:
  struct Buffer {
    ByteSpan bytes;
    int slot = sys::kNoSlot;
  };

  /// `engine` must outlive the memory; null: not registered. `refusal` says why not.
  LocalMemory(MemoryKind kind, const backend::PieceDispatcher* dispatcher,
              sys::FileEngine* engine = nullptr, std::vector<Buffer> buffers = {},
              std::string refusal = {});
  ~LocalMemory() override;

  /// Registers `bytes` with the engine, in buffers that the kernel accepts (at most 1 GiB each), or
  /// not at all; then refusal() says why. `engine` null: on purpose not.
  static std::unique_ptr<LocalMemory> make(MemoryKind kind, const Dispatcher& dispatcher,
                                           sys::FileEngine* engine, ByteSpan bytes);

  /// The registered buffer that holds all of `part`, or kNoSlot.
  int slot_of(const sys::IoPart& part) const noexcept;
  const std::string& refusal() const noexcept { return refusal_; }
  /// Counts it as pinned from now on.
  void hold(Held held) noexcept { held_ = std::move(held); }

 private:
  sys::FileEngine* engine_;
  std::vector<Buffer> buffers_;  // in order of address
  std::string refusal_;
  Held held_;
};

/// What a registration of an extent of a file and its imports have in common.
struct DiskRecord {
  std::uint64_t id = 0;  ///< what the key carries
  std::shared_ptr<OpenFile> file;
  /// Lives while anything is registered under the same device id, and not revoked.
  std::shared_ptr<const backend::OpenDescriptor> named;
  RegionDescriptor region;
  bool registered = true;
};

/// An extent of an open file, registered here or imported from ourselves.
class DiskMemory final : public backend::PieceMemory {
 public:
  enum class Role { registration, import };
  DiskMemory(const backend::PieceDispatcher* dispatcher, std::shared_ptr<DiskRecord> record,
             Role role);
  /// A registration takes the imports' right to the file along.
  ~DiskMemory() override;

  /// 16 bytes: a magic number and the id, both little-endian.
  Bytes key() const override;
  /// Its device id may stand for another file: what is under way goes by the open file.
  void revoke() override;
  static Result<std::uint64_t> id_from_key(ConstByteSpan key);

  OpenFile& file() const noexcept { return *record_->file; }
  const DiskRecord& record() const noexcept { return *record_; }

 private:
  std::shared_ptr<DiskRecord> record_;
  Role role_;
};

}  // namespace towpath::backends::posix
