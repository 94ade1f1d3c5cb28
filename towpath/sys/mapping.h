// Mapping: an extent of this process's address space with one owner. It unmaps when it dies.
//
// It is not a region (memory/): it knows no kind, device or registration.
// Invariants: data() and size() never change; the size is rounded up to pages only by the kernel.
// Thread: immutable; the bytes are as safe as their users make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::sys {

/// Bytes per page of this machine.
std::uint64_t page_size() noexcept;

struct MapFile {
  int fd = -1;                   ///< may be closed after the call
  std::uint64_t offset = 0;      ///< of the first byte; a multiple of page_size()
  std::uint64_t size_bytes = 0;  ///< at least 1
  bool writable = true;
  bool inherited = true;  ///< by a forked child; else the bytes are not there in it
  /// Where to map; null: anywhere. Chosen addresses are multiples of page_size(), and nothing may
  /// be mapped there yet.
  void* at = nullptr;
};

class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        mapped_(std::exchange(other.mapped_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~Mapping();

  /// Zeroed memory of this process alone, page-aligned.
  /// Errors: invalid_argument (size 0), exhausted.
  static Result<Mapping> anonymous(std::uint64_t size_bytes);

  /// The same in huge pages that were reserved; `size_bytes` is a multiple of `page_bytes`, a power
  /// of two. The pages are set aside at once. Errors: exhausted (too few are free),
  /// invalid_argument, unsupported.
  static Result<Mapping> reserved_pages(std::uint64_t size_bytes, std::uint64_t page_bytes);

  /// Bytes of a file or memfd, shared with all that map it.
  /// Errors: invalid_argument (size 0, unaligned), out_of_range (a regular file ends before the
  /// extent does: touching it would be a SIGBUS), already_exists (something is mapped at `at`),
  /// denied (the descriptor is not open for this), unsupported, exhausted.
  /// Whoever can shrink the file later can still cause a SIGBUS: see check_sealed (memfd.h).
  static Result<Mapping> of_file(const MapFile& options);

  std::byte* data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  ByteSpan bytes() const noexcept { return {data_, size_}; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  Mapping(void* data, std::uint64_t size_bytes, std::uint64_t mapped_bytes) noexcept
      : data_(static_cast<std::byte*>(data)), size_(size_bytes), mapped_(mapped_bytes) {}

  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t mapped_ = 0;  // in whole huge pages, where it lies in such
};

}  // namespace towpath::sys
