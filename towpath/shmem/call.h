// Call: what a PE came to a gathering for. Calls that do not match are reported with both sides'
// words. Thread: immutable.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace towpath::shmem {

enum class CallKind : std::uint32_t {
  none = 0,
  join = 1,
  barrier = 2,
  sync = 3,
  allocate = 4,  ///< bytes, alignment, zeroed
  free = 5,      ///< slot
  split = 6,     ///< start, stride, size
  split_2d = 7,  ///< x range
  destroy = 8,
  broadcast = 9,  ///< target, source, bytes, root
  collect = 10,   ///< target, source, element bytes
  alltoall = 11,  ///< target, source, bytes
  reduce = 12,    ///< target, source, count, operation and element bytes
  finalize = 13,
  wait = 14,            ///< alone, not a gathering
  lock = 15,            ///< the same
  reduce_scatter = 16,  ///< as reduce
  scan = 17,            ///< as reduce
  exclusive_scan = 18,  ///< as reduce
  keep = 19,            ///< slot, bytes
};

struct Call {
  CallKind kind = CallKind::none;
  /// What must be alike on all members; see CallKind.
  std::array<std::uint64_t, 4> arguments{};

  friend bool operator==(const Call&, const Call&) = default;
};

/// 48 bits, equal for equal calls.
std::uint64_t digest_of(const Call& call) noexcept;

/// "allocate", "barrier".
const char* name_of(CallKind kind) noexcept;
/// "allocate(bytes 4096, alignment 64, zeroed 0)".
std::string to_string(const Call& call);

}  // namespace towpath::shmem
