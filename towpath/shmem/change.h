// Change: an atomic operation on one word, as a value: what is done at once to a word of this host,
// and what is sent to the PE that has it.
// Thread: immutable.
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

}  // namespace towpath::shmem
