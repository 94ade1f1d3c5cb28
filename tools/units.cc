#include "tools/units.h"

#include <cmath>

#include <fmt/format.h>

namespace towpath::tools {
namespace {

/// 3.62, 45.1, 812: what rounds up to 10.0 has a digit less.
std::string three_digits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

}  // namespace

std::string grouped(std::uint64_t number) {
  std::string digits = fmt::format("{}", number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

double ratio_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent(double ratio) { return fmt::format("{:.1f} %", ratio * 100); }

std::string duration_text(std::chrono::nanoseconds time) {
  double value = static_cast<double>(time.count());
  if (value < 999.5) return fmt::format("{} ns", time.count());
  for (const char* const unit : {"us", "ms"}) {
    value /= 1000;
    if (value < 999.5) return fmt::format("{} {}", three_digits(value), unit);
  }
  value /= 1000;
  if (value < 99.95) return fmt::format("{} s", three_digits(value));
  const auto seconds = static_cast<std::uint64_t>(std::llround(value));
  return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
}

std::string rate_text(std::uint64_t bytes, std::chrono::nanoseconds time) {
  if (time.count() <= 0) return "-";
  const double gigabytes_per_second =
      static_cast<double>(bytes) / static_cast<double>(time.count());
  return fmt::format("{:.2f} GB/s", gigabytes_per_second);
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  for (const char* const unit : {"KiB", "MiB", "GiB", "TiB"}) {
    value /= 1024;
    if (value < 999.5) return fmt::format("{} {}", three_digits(value), unit);
  }
  return fmt::format("{:.0f} PiB", value / 1024);
}

}  // namespace towpath::tools
