#include <array>
#include <cctype>
#include <cmath>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>

namespace towpath {

std::string lower(std::string_view text) {
  std::string folded(text);
  for (char& letter : folded) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return folded;
}

std::string upper(std::string_view text) {
  std::string folded(text);
  for (char& letter : folded) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return folded;
}

std::string hex(std::uint64_t value) {
  char buffer[24];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, 16);
  return cat("0x", std::string_view(buffer, static_cast<std::size_t>(end.ptr - buffer)));
}

namespace {

constexpr std::array<std::string_view, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};

bool is_safe_in_path(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' || letter == '_' ||
         letter == '.';
}

void append_byte(std::string& out, std::string_view prefix, char letter) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(letter);
  out.append(prefix);
  out.push_back(kDigits[byte >> 4U]);
  out.push_back(kDigits[byte & 15U]);
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  std::size_t unit = 0;
  std::uint64_t exact = bytes;
  while (exact >= 1024 && exact % 1024 == 0 && unit + 1 < kUnits.size()) {
    exact /= 1024;
    ++unit;
  }
  if (exact < 10 * 1024) return cat(exact, " ", kUnits[unit]);
  double rounded = static_cast<double>(exact);
  while (rounded >= 1024 && unit + 1 < kUnits.size()) {
    rounded /= 1024;
    ++unit;
  }
  const auto tenths = static_cast<std::uint64_t>(std::llround(rounded * 10));
  return cat(tenths / 10, ".", tenths % 10, " ", kUnits[unit]);
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const auto fail = [&](std::string_view why) {
    return error(Code::invalid_argument, cat("'", printable(text), "' is not a size: ", why),
                 "write a number with an optional unit: 4096, 64K, 1.5GiB");
  };
  double number = 0;
  auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || !std::isfinite(number))
    return fail("it does not begin with a number");
  if (number < 0) return fail("it is negative");
  std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  std::uint64_t factor = 1;
  if (!unit.empty()) {
    constexpr std::string_view kLetters = "BKMGTP";
    const auto power =
        kLetters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front()))));
    if (power == std::string_view::npos) return fail("the unit is unknown");
    unit.remove_prefix(1);
    if (power != 0 && !(unit.empty() || unit == "B" || unit == "b" || unit == "iB" || unit == "ib"))
      return fail("the unit is unknown");
    if (power == 0 && !unit.empty()) return fail("the unit is unknown");
    factor <<= 10 * power;
  }
  // A whole number as it is written: a double has 53 bits.
  std::uint64_t whole = 0;
  if (const auto [end, cut] = std::from_chars(text.data(), rest, whole);
      cut == std::errc() && end == rest) {
    const auto exact = checked_multiply(whole, factor);
    if (exact) return *exact;
    return fail("it does not fit 64 bits");
  }
  const double bytes = number * static_cast<double>(factor);
  if (bytes >= 18446744073709551616.0) return fail("it does not fit 64 bits");
  return static_cast<std::uint64_t>(bytes);
}

std::string printable(std::string_view name, std::size_t limit) {
  std::string out;
  for (char letter : name.substr(0, limit)) {
    if (letter >= ' ' && letter <= '~' && letter != '\\') {
      out.push_back(letter);
    } else {
      append_byte(out, "\\x", letter);
    }
  }
  if (name.size() > limit) out.append("...");
  return out;
}

std::string path_safe(std::string_view name) {
  if (name.empty()) return "%";  // no encoded byte is a lone percent sign
  std::string out;
  for (char letter : name) {
    const bool first_dot = letter == '.' && out.empty();
    if (is_safe_in_path(letter) && !first_dot) {
      out.push_back(letter);
    } else {
      append_byte(out, "%", letter);
    }
  }
  return out;
}

}  // namespace towpath
