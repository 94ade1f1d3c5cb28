// GuardedCopy: copies between bytes of our own and memory that somebody else may have unmapped,
// protected, or cut the file of: an access of ours would end the process, the kernel's answers
// EFAULT.
//
//   our bytes <--memcpy--> [ stage: pages of a memfd ] <--preadv, pwritev--> extents of the memory
//
// The kernel copies at a quarter of the costs of process_vm_readv() on one's own process, which
// pins each page: 64 bytes in 25 to 83 ns instead of 900 (memcpy: 16 to 20), and needs no right
// that a container may lack.
//
//   begin() -> add() ... add() -> finish(): which of them faulted
//
// Invariant: between finish() and begin() it knows of no memory. Thread: loop.
// Cost: a system call per 512 extents or 128 KiB; no allocation once it is open.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <towpath/core/result.h>

namespace towpath::sys {

struct GuardedExtent {
  std::byte* own = nullptr;   ///< of this process's, safe
  std::uint64_t address = 0;  ///< in the other memory
  std::uint64_t length = 0;
  std::uint32_t tag = 0;  ///< by which finish() names it; ascending
};

class GuardedCopy {
 public:
  enum class Direction : std::uint8_t { into_memory, out_of_memory };

  GuardedCopy() noexcept;
  ~GuardedCopy();
  GuardedCopy(const GuardedCopy&) = delete;
  GuardedCopy& operator=(const GuardedCopy&) = delete;

  /// Idempotent; done by the first add() at the latest, where a failure, of memory too, makes every
  /// extent a faulty one. Errors: exhausted (no descriptor), unsupported.
  Status open();

  void begin(Direction direction) noexcept;
  void add(GuardedExtent extent) noexcept;
  /// The tags of the extents that faulted, each once, until the next begin(); at most kMostFaults,
  /// or the process ends. What has such a tag is copied no further: a system call for each extent
  /// of a peer's choice would be too many. What was not read is 0 in our bytes.
  std::span<const std::uint32_t> finish() noexcept;

  static constexpr std::size_t kMostFaults = 1024;

 private:
  struct Stage;

  bool is_open() noexcept;
  void flush() noexcept;
  void move() noexcept;
  bool has_faulted(std::uint32_t tag) const noexcept {
    return faults_ > 0 && faulty_[faults_ - 1] == tag;
  }
  void note_fault(std::uint32_t tag) noexcept;

  std::unique_ptr<Stage> stage_;
  Direction direction_ = Direction::into_memory;
  std::array<std::uint32_t, kMostFaults> faulty_;  // the first `faults_`
  std::size_t faults_ = 0;
};

}  // namespace towpath::sys
