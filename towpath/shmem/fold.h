// Fold: combining elements of one type, for reductions.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <type_traits>

namespace towpath::shmem {

enum class ReduceOp : std::uint8_t { sum, product, min, max, bit_and, bit_or, bit_xor };

struct Reduction {
  ReduceOp op = ReduceOp::sum;
  std::uint64_t count = 0;  ///< elements
};

/// into[i] = into[i] op values[i], for `count` elements.
using Fold = void (*)(void* into, const void* values, std::uint64_t count);

namespace internal {
template <typename T, typename Operation>
void fold(void* into, const void* values, std::uint64_t count) {
  auto* to = static_cast<T*>(into);
  const auto* from = static_cast<const T*>(values);
  for (std::uint64_t i = 0; i < count; ++i) to[i] = Operation()(to[i], from[i]);
}
/// As what sums and products are computed: integers wrap, so as unsigned ones, and those that are
/// smaller than int as what int is.
template <typename T, bool = std::is_integral_v<T>>
struct WrappingOf {
  using Type = T;
};
template <typename T>
struct WrappingOf<T, true> {
  using Type = std::make_unsigned_t<decltype(T{} * T{})>;
};
template <typename T>
using Wrapping = typename WrappingOf<T>::Type;

struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Product {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
}  // namespace internal

/// Null when T has no such operation: floating-point numbers have no bits.
template <typename T>
Fold fold_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return internal::fold<T, internal::Sum>;
    case ReduceOp::product: return internal::fold<T, internal::Product>;
    case ReduceOp::min: return internal::fold<T, internal::Min>;
    case ReduceOp::max: return internal::fold<T, internal::Max>;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case ReduceOp::bit_and: return internal::fold<T, internal::And>;
      case ReduceOp::bit_or: return internal::fold<T, internal::Or>;
      case ReduceOp::bit_xor: return internal::fold<T, internal::Xor>;
      default: break;
    }
  }
  return nullptr;
}

}  // namespace towpath::shmem
