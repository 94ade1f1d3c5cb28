// Random: the only source of chance of a simulated network. The same seed throws the same numbers
// on every machine and compiler. Thread: none of its own.
#pragma once

#include <cstdint>

#include <towpath/core/clock.h>

namespace towpath::backends::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {  // splitmix64
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31U);
  }
  /// 0 .. `count` - 1; `count` at least 1.
  std::uint64_t below(std::uint64_t count) noexcept { return next() % count; }
  /// True this many times in a thousand.
  bool chance(unsigned permille) noexcept { return permille > 0 && below(1000) < permille; }
  /// Zero up to `longest`.
  Duration within(Duration longest) noexcept {
    return longest.count() <= 0 ? Duration(0)
                                : Duration(below(static_cast<std::uint64_t>(longest.count()) + 1));
  }

 private:
  std::uint64_t state_;
};

}  // namespace towpath::backends::sim
