// What is done to words and bytes of heaps. Change: an atomic operation on one word, as a value:
// what is done at once to a word of this host, and what is sent to the PE that has it. Compare:
// what is asked of a word. Then copies, and fences. Thread: any; values.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace towpath::shmem {

enum class ChangeOp : std::uint8_t {
  fetch = 0,
  swap = 1,
  add = 2,
  compare_swap = 3,
  bit_and = 4,
  bit_or = 5,
  bit_xor = 6,
};
inline constexpr std::uint8_t kChangeOps = 7;

/// A byte of the heap of a PE.
struct RemoteAddress {
  std::uint32_t pe = 0;
  std::uint64_t offset = 0;
};

/// What is asked of memory again and again; lives as long as what it was made of.
struct Condition {
  template <typename Holds>
  static Condition of(const Holds& holds) noexcept {
    return {.what = &holds,
            .answer = [](const void* what) { return (*static_cast<const Holds*>(what))(); }};
  }
  bool operator()() const { return answer(what); }

  const void* what;
  bool (*answer)(const void* what);
};

/// On a word of 4 or 8 bytes; values are its bits.
struct Change {
  ChangeOp op = ChangeOp::fetch;
  std::uint8_t word_bytes = 8;
  std::uint64_t operand = 0;
  std::uint64_t expected = 0;  ///< of a compare_swap
};

/// Does it, sequentially consistent; answers the value from before.
template <ChangeOp Op, typename T>
T apply(std::atomic_ref<T> word, T operand, T expected = {}) {
  if constexpr (Op == ChangeOp::fetch) {
    return word.load();
  } else if constexpr (Op == ChangeOp::swap) {
    return word.exchange(operand);
  } else if constexpr (Op == ChangeOp::add) {
    return word.fetch_add(operand);
  } else if constexpr (Op == ChangeOp::bit_and) {
    return word.fetch_and(operand);
  } else if constexpr (Op == ChangeOp::bit_or) {
    return word.fetch_or(operand);
  } else if constexpr (Op == ChangeOp::bit_xor) {
    return word.fetch_xor(operand);
  } else {
    word.compare_exchange_strong(expected, operand);
    return expected;
  }
}

/// The same for a change that is known only now. `word` is aligned to its size.
std::uint64_t apply(std::byte* word, const Change& change);

template <typename T>
std::uint64_t bits_of(T value) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <typename T>
T from_bits(std::uint64_t bits) noexcept {
  T value{};
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <ChangeOp Op, typename T>
Change change_of(T operand, T expected = {}) noexcept {
  return {.op = Op,
          .word_bytes = sizeof(T),
          .operand = bits_of(operand),
          .expected = bits_of(expected)};
}

/// What wait_until() and test() ask of a value. The numbers are those of OpenSHMEM's
/// implementations, for the C doors.
enum class Compare : std::uint8_t {
  equal = 0,
  not_equal = 1,
  greater = 2,
  less_equal = 3,
  less = 4,
  greater_equal = 5,
};

template <typename T>
constexpr bool holds(T value, Compare compare, T limit) noexcept {
  switch (compare) {
    case Compare::equal: return value == limit;
    case Compare::not_equal: return value != limit;
    case Compare::greater: return value > limit;
    case Compare::less_equal: return value <= limit;
    case Compare::less: return value < limit;
    case Compare::greater_equal: return value >= limit;
  }
  return false;
}

// Copies between heaps: small ones are inlined; very large ones go past the cache, since neither
// side would find them there anyway.

/// From here on copy_bytes() writes past the cache; measured in bench/shmem.cc.
inline constexpr std::uint64_t kStreamBytes = 8ULL << 20U;

/// As memcpy(3), with streaming stores. The bytes are visible to others after the next store that
/// is, as with ordinary stores.
void stream_bytes(std::byte* to, const std::byte* from, std::uint64_t count) noexcept;

inline void copy_bytes(void* to, const void* from, std::uint64_t count) noexcept {
  if (count >= kStreamBytes) [[unlikely]]
    return stream_bytes(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), count);
  if (count != 0) std::memmove(to, from, count);
}

/// Fences, in a form that ThreadSanitizer follows: it does not know std::atomic_thread_fence, and
/// g++ refuses to compile one under it. There, all fences meet at one word, which orders more than
/// asked: what TSan then reports is a race all the same.
///
/// It knows words by address, too. Threads that act as PEs have a mapping of the segment each, so
/// an order that comes by another PE's mapping, or by UCX, is none to it. Where a PE and its
/// transport (the thread that brings what other hosts send) meet by such a way, both fence: free on
/// x86-64, where these orders cost no instruction. Thread: any.
#if defined(__SANITIZE_THREAD__)
inline std::atomic<unsigned> fences{0};
inline void thread_fence(std::memory_order) noexcept {
  fences.fetch_add(1, std::memory_order_seq_cst);
}
#else
inline void thread_fence(std::memory_order order) noexcept { std::atomic_thread_fence(order); }
#endif

}  // namespace towpath::shmem
