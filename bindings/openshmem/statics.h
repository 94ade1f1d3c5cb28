// Statics: the program's own global and static variables, as a part of the symmetric heap.
//
// Their pages are copied to a block of the heap, and the block is mapped over them. So a variable
// is at once where the program knows it, and in the heap that all other PEs have mapped. Not those
// of shared libraries, nor of threads. A child that is forked shares them with its parent.
// Invariants: it stays until the process ends: the variables live there. Thread: immutable; made
// while no other thread writes to a variable.
#pragma once

#include <towpath/shmem/context.h>

namespace towpath::openshmem {

class Statics {
 public:
  Statics() = default;  ///< none
  /// Collective. Errors: allocate_block()'s (the PEs run different programs; the heap is smaller
  /// than the variables), and mmap(2)'s.
  static Result<Statics> share(shmem::Context& context);

  /// Of the first variable, and the bytes from there to the last one.
  std::uint64_t address() const noexcept { return address_; }
  std::uint64_t size() const noexcept { return size_; }
  std::byte* in_heap() const noexcept { return size_ != 0 ? block_->local() : nullptr; }

 private:
  Statics(shmem::SharedBlock block, std::uint64_t address)
      : block_(std::move(block)), address_(address), size_(block_->place().size_bytes) {}

  shmem::SharedBlock block_;
  std::uint64_t address_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace towpath::openshmem
