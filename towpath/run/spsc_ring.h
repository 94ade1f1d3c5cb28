// SpscRing: a bounded ring from one thread to one other.
//
// Cheaper than MpscQueue: each side writes its own index only, and reads the other's when its copy
// no longer suffices. A full ring refuses the push.
// Thread: push one producer; pop one consumer.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <towpath/core/check.h>

namespace towpath::run {

template <typename T>
class SpscRing {
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  /// Room for `at_least` values, rounded up to a power of two.
  explicit SpscRing(std::size_t at_least) {
    TOWPATH_CHECK(at_least <= (std::size_t{1} << 30U), "a ring of more than 2^30 values");
    mask_ = std::bit_ceil(at_least) - 1;
    cells_ = std::make_unique<Cell[]>(mask_ + 1);
  }
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;
  ~SpscRing() {
    while (pop()) {
    }
  }

  std::size_t capacity() const noexcept { return mask_ + 1; }

  /// False when the ring is full; `value` is then untouched.
  [[nodiscard]] bool push(T&& value) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);  // written here only
    if (tail - head_seen_ > mask_) {
      // Acquire: pairs with the release in pop(), so the cell is empty before it is filled again.
      head_seen_ = head_.load(std::memory_order_acquire);
      if (tail - head_seen_ > mask_) return false;
    }
    ::new (static_cast<void*>(cells_[tail & mask_].storage)) T(std::move(value));
    // Release: pairs with the acquire in pop().
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }
  [[nodiscard]] bool push(const T& value) noexcept(std::is_nothrow_copy_constructible_v<T>) {
    return push(T(value));
  }

  /// The oldest value, or nothing.
  std::optional<T> pop() noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);  // written here only
    if (head == tail_seen_) {
      // Acquire: pairs with the release in push().
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head == tail_seen_) return std::nullopt;
    }
    T* stored = std::launder(reinterpret_cast<T*>(cells_[head & mask_].storage));
    std::optional<T> value(std::move(*stored));
    stored->~T();
    // Release: pairs with the acquire in push().
    head_.store(head + 1, std::memory_order_release);
    return value;
  }

 private:
  struct Cell {
    alignas(T) std::byte storage[sizeof(T)];
  };

  std::size_t mask_;
  std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t head_seen_ = 0;  // the producer's copy of head_
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::uint64_t tail_seen_ = 0;  // the consumer's copy of tail_
};

}  // namespace towpath::run
