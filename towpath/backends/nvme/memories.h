// The two kinds of memory that this backend registers: bytes of this process, and an extent of an
// open namespace.
// Thread: loop.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <towpath/backend/memory_table.h>
#include <towpath/backend/piece_memory.h>
#include <towpath/backends/nvme/driver.h>

namespace towpath::backends::nvme {

/// Memory of this process. It needs nothing beforehand: pages are pinned command by command, which
/// also holds for the mapped memory of another device (which cannot be pinned for long).
class LocalMemory final : public backend::PieceMemory {
 public:
  using PieceMemory::PieceMemory;
};

/// What a registration of an extent of a namespace and its imports have in common.
struct BlockRecord : backend::RegisteredRegion {
  using RegisteredRegion::RegisteredRegion;
  std::shared_ptr<Namespace> target;
  /// Lives while anything is registered under the same device id, and not revoked.
  std::shared_ptr<const std::uint64_t> named;
  bool registered = true;
};

using BlockTable = backend::MemoryTable<BlockRecord>;

class BlockMemory final : public backend::PieceMemory {
 public:
  /// What was imported: `table` null. A registration is taken out of its table when it dies, and
  /// takes the imports' right to the namespace along.
  BlockMemory(const backend::PieceDispatcher* dispatcher, std::shared_ptr<BlockRecord> record,
              BlockTable* table = nullptr)
      : PieceMemory(MemoryKind::block, dispatcher), record_(std::move(record)), table_(table) {}
  ~BlockMemory() override {
    if (table_ == nullptr) return;
    record_->registered = false;
    record_->named.reset();
    table_->remove(record_->id);
  }

  Bytes key() const override { return backend::key_of(*record_); }
  /// Its device id may stand for another namespace: what is under way goes by the open one.
  void revoke() override {
    if (table_ != nullptr) record_->named.reset();
  }

  Namespace& target() const noexcept { return *record_->target; }
  const NamespaceInfo& info() const noexcept { return record_->target->info(); }
  const BlockRecord& record() const noexcept { return *record_; }
  /// By the word of its region.
  bool writable() const noexcept { return target().writable(); }

 private:
  const std::shared_ptr<BlockRecord> record_;
  BlockTable* const table_;
};

}  // namespace towpath::backends::nvme
