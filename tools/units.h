// Numbers with their units, as people read them. ASCII. Thread: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace towpath::tools {

/// 12031 -> "12,031".
std::string grouped(std::uint64_t number);
/// 0 of nothing.
double ratio_of(std::uint64_t part, std::uint64_t whole);
/// 0.3736 -> "37.4 %".
std::string percent(double ratio);
/// Three digits that count and the unit that fits: "812 ns", "3.62 us", "45.1 ms", "12.0 s",
/// "4 min 05 s".
std::string duration_text(std::chrono::nanoseconds time);
/// A time that is counted in seconds.
inline std::chrono::nanoseconds duration_of(double seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}
/// In powers of 1000, as speeds are reported: "9.81 GB/s"; "-" for no time.
std::string rate_text(std::uint64_t bytes, std::chrono::nanoseconds time);
/// Three digits that count, in powers of 1024: "1.25 GiB"; for exact values format_bytes().
std::string size_text(std::uint64_t bytes);

}  // namespace towpath::tools
