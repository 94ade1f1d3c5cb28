// PieceMemory: memory of a backend whose bytes move in pieces. It insists when it dies that none of
// them touches it: neither the kernel's registration nor a descriptor goes away under one.
// Thread: loop.
#pragma once

#include <towpath/backend/piece_dispatcher.h>
#include <towpath/core/check.h>

namespace towpath::backend {

class PieceMemory : public Memory {
 public:
  /// `dispatcher` outlives the memory; null in tests that have none.
  PieceMemory(MemoryKind kind, const PieceDispatcher* dispatcher) noexcept
      : kind_(kind), dispatcher_(dispatcher) {}
  PieceMemory(const PieceMemory&) = delete;
  PieceMemory& operator=(const PieceMemory&) = delete;
  ~PieceMemory() override { check_quiesced(); }

  MemoryKind kind() const noexcept { return kind_; }

 protected:
  /// For destructors that take something back.
  void check_quiesced() const noexcept {
    TOWPATH_CHECK(dispatcher_ == nullptr || !dispatcher_->touches(*this),
                  "memory was deregistered while an operation on it was active");
  }

 private:
  const MemoryKind kind_;
  const PieceDispatcher* const dispatcher_;
};

}  // namespace towpath::backend
