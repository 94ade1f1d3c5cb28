// What all members of a team do with each other's memory: broadcast, collect, alltoall, reduce.
//
// Everyone reads everyone, so no data is passed on from PE to PE. Reductions take the PEs' values
// in the order of the team, wherever a result is computed: floating-point results are equal to the
// last bit on all PEs, and from run to run. When a reduction returns, this PE's target is ready and
// its source free again; others may not have theirs yet.
// Every member passes the same buffers and figures; a difference is an error on all, and so is what
// is out of range.
// Errors of all: out_of_range (elements; with the numbers), not_ready (no team), gather()'s.
// Thread: one collective call of each PE at a time.
#pragma once

#include <cstdint>
#include <type_traits>

#include <towpath/shmem/symmetric_buffer.h>
#include <towpath/shmem/team.h>

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

namespace internal {

/// An extent of the symmetric heap, as bytes.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};

struct Movement {
  Extent target;
  Extent source;
};

struct Folding {
  std::uint64_t count = 0;
  std::uint64_t element_bytes = 0;
  ReduceOp op = ReduceOp::sum;
  Fold fold = nullptr;
};

/// What a call is about, which may be more than there is: that is refused when all have met.
struct Elements {
  std::uint64_t count = 0;
  std::uint64_t width = 1;  ///< bytes
};

Status broadcast(const Team& team, const Movement& what, const Elements& elements, int root);
Result<std::uint64_t> collect(const Team& team, const Movement& what, const Elements& mine);
/// `what` is one PE's share: the extents hold one for each member.
Status alltoall(const Team& team, const Movement& what, std::uint64_t share_bytes);
Status reduce(const Team& team, const Movement& what, const Folding& folding);
/// The source has `count` elements for each member, who gets the reduction of its own.
Status reduce_scatter(const Team& team, const Movement& what, const Folding& folding);
enum class ScanKind : std::uint8_t { inclusive, exclusive };
/// Each member gets the reduction of those up to itself, or before itself: the first one zeros.
Status scan(const Team& team, const Movement& what, const Folding& folding, ScanKind kind);

template <typename T>
Extent extent_of(const SymmetricBuffer<T>& buffer) noexcept {
  return {.offset = buffer.offset(), .size_bytes = buffer.size() * sizeof(T)};
}

template <typename T>
Movement movement(const SymmetricBuffer<T>& target, const SymmetricBuffer<T>& source) noexcept {
  return {.target = extent_of(target), .source = extent_of(source)};
}

}  // namespace internal

struct Broadcast {
  int root = 0;  ///< index in the team
  std::uint64_t count = 0;
};

/// The root's first `count` elements of `source` go to everyone's `target`, its own too.
template <typename T>
Status broadcast(const Team& team, const SymmetricBuffer<T>& target,
                 const SymmetricBuffer<T>& source, const Broadcast& what) {
  return internal::broadcast(team, internal::movement(target, source),
                             {.count = what.count, .width = sizeof(T)}, what.root);
}

/// The first `count` elements of each member's `source`, which may differ between members, one
/// after the other in everyone's `target`. Reports how many those are.
template <typename T>
Result<std::uint64_t> collect(const Team& team, const SymmetricBuffer<T>& target,
                              const SymmetricBuffer<T>& source, std::uint64_t count) {
  return internal::collect(team, internal::movement(target, source),
                           {.count = count, .width = sizeof(T)});
}

/// Elements [j * count, (j + 1) * count) of member i's `source` go to [i * count, ...) of member
/// j's `target`.
template <typename T>
Status alltoall(const Team& team, const SymmetricBuffer<T>& target,
                const SymmetricBuffer<T>& source, std::uint64_t count) {
  return internal::alltoall(team, internal::movement(target, source),
                            count <= source.size() ? count * sizeof(T) : ~std::uint64_t{0});
}

/// Element by element over all members, into everyone's `target`, which may be the source.
/// Errors: invalid_argument (bits of what has none).
template <typename T>
Status reduce(const Team& team, const SymmetricBuffer<T>& target, const SymmetricBuffer<T>& source,
              const Reduction& what) {
  return internal::reduce(team, internal::movement(target, source),
                          {.count = what.count,
                           .element_bytes = sizeof(T),
                           .op = what.op,
                           .fold = fold_of<T>(what.op)});
}

}  // namespace towpath::shmem
