// Pool: device memory given out and taken back in a stream's order, without waiting for it.
//
// Memory may be used by work that is given to the stream after allocate(), and until free() in a
// stream that comes after it. Freed memory serves the next allocate() of that stream at once.
// Invariants: a pool outlives what it gave out. Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <towpath/core/result.h>
#include <towpath/device/stream.h>
#include <towpath/device/values.h>

namespace towpath::device {

class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  virtual ~Pool() = default;

  /// Errors: invalid_argument (size 0), exhausted.
  virtual Result<std::uint64_t> allocate(std::uint64_t size_bytes, Stream& stream) = 0;
  /// Once for each allocate().
  virtual Status free(std::uint64_t address, Stream& stream) = 0;
  virtual Result<PoolFigures> figures() const = 0;
  /// Gives back to the device what is not used, down to `keep_bytes`.
  virtual Status trim(std::uint64_t keep_bytes) = 0;
};

/// Memory of a pool with one owner; freed in the order of the stream that it was allocated in.
/// Thread: the owner's.
class PooledMemory {
 public:
  PooledMemory() = default;
  /// Errors: as Pool::allocate.
  static Result<PooledMemory> allocate(std::shared_ptr<Pool> pool, std::shared_ptr<Stream> stream,
                                       std::uint64_t size_bytes) {
    TOWPATH_TRY(const std::uint64_t address, pool->allocate(size_bytes, *stream));
    PooledMemory memory;
    memory.pool_ = std::move(pool);
    memory.stream_ = std::move(stream);
    memory.address_ = address;
    memory.size_bytes_ = size_bytes;
    return memory;
  }
  PooledMemory(PooledMemory&&) noexcept = default;
  PooledMemory& operator=(PooledMemory&& other) noexcept {
    PooledMemory taken(std::move(other));  // ours is freed with it
    std::swap(pool_, taken.pool_);
    std::swap(stream_, taken.stream_);
    std::swap(address_, taken.address_);
    std::swap(size_bytes_, taken.size_bytes_);
    return *this;
  }
  ~PooledMemory() {
    if (pool_ != nullptr) (void)pool_->free(address_, *stream_);
  }

  std::uint64_t address() const noexcept { return address_; }
  std::uint64_t size() const noexcept { return size_bytes_; }

 private:
  // Both null: empty, moved from. The pool dies after the stream has passed the free.
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<Stream> stream_;
  std::uint64_t address_ = 0;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace towpath::device
