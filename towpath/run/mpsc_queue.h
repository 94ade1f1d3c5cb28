// MpscQueue: a bounded ring from many threads to one.
//
// A full ring refuses the push; nothing waits, allocates after construction, or takes a lock. Each
// cell carries a sequence number that says whose turn it is (the scheme of Dmitry Vyukov's bounded
// queue): `position` when free for the push of that position, `position + 1` when it holds its
// value. Order is kept per producer. A producer that is stopped in the middle of its push holds
// back what came after it until it goes on. Thread: push any; pop one consumer.
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
class MpscQueue {
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  /// Room for `at_least` values, rounded up to a power of two, and 2 or more.
  explicit MpscQueue(std::size_t at_least) {
    TOWPATH_CHECK(at_least <= (std::size_t{1} << 30U), "a queue of more than 2^30 values");
    const std::size_t capacity = std::bit_ceil(at_least < 2 ? std::size_t{2} : at_least);
    mask_ = capacity - 1;
    cells_ = std::make_unique<Cell[]>(capacity);
    for (std::size_t index = 0; index < capacity; ++index)
      cells_[index].sequence.store(index, std::memory_order_relaxed);
  }
  MpscQueue(const MpscQueue&) = delete;
  MpscQueue& operator=(const MpscQueue&) = delete;
  ~MpscQueue() {
    while (pop()) {
    }
  }

  std::size_t capacity() const noexcept { return mask_ + 1; }

  /// False when the ring is full; `value` is then untouched.
  [[nodiscard]] bool push(T&& value) noexcept {
    // Relaxed: the position is only a claim; the cell's sequence orders what is in it.
    std::uint64_t position = tail_.load(std::memory_order_relaxed);
    while (true) {
      Cell& cell = cells_[position & mask_];
      // Acquire: pairs with the release in pop(), so the old value is gone before the new is built.
      const std::uint64_t sequence = cell.sequence.load(std::memory_order_acquire);
      if (sequence == position) {
        if (!tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed))
          continue;
        ::new (static_cast<void*>(cell.storage)) T(std::move(value));
        // Release: pairs with the acquire in pop().
        cell.sequence.store(position + 1, std::memory_order_release);
        return true;
      }
      if (sequence < position) return false;             // the value of a round ago is still there
      position = tail_.load(std::memory_order_relaxed);  // another producer was faster
    }
  }
  [[nodiscard]] bool push(const T& value) noexcept(std::is_nothrow_copy_constructible_v<T>) {
    return push(T(value));
  }

  /// The oldest value, or nothing.
  std::optional<T> pop() noexcept {
    Cell& cell = cells_[head_ & mask_];
    // Acquire: pairs with the release in push().
    if (cell.sequence.load(std::memory_order_acquire) != head_ + 1) return std::nullopt;
    T* stored = std::launder(reinterpret_cast<T*>(cell.storage));
    std::optional<T> value(std::move(*stored));
    stored->~T();
    // Release: pairs with the acquire in push(), a round later.
    cell.sequence.store(head_ + mask_ + 1, std::memory_order_release);
    ++head_;
    return value;
  }

 private:
  struct Cell {
    std::atomic<std::uint64_t> sequence;
    alignas(T) std::byte storage[sizeof(T)];
  };

  std::size_t mask_;
  std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) std::uint64_t head_ = 0;  // the consumer's alone
};

}  // namespace towpath::run
