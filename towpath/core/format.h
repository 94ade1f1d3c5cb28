// Formatting for messages: joining values, sizes for people, names that hold any bytes.
//
// cat() has no format string to read: three texts and two numbers took 51 ns, where fmt::format()
// took 74 and an ostringstream 276 (g++ 12, medians of one run, processor time).
// Thread: any.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <towpath/core/result.h>

namespace towpath {

namespace internal {
inline void append(std::string& out, std::string_view text) { out.append(text); }
inline void append(std::string& out, char letter) { out.push_back(letter); }
template <std::same_as<bool> T>  // exactly bool: a pointer must not become one
void append(std::string& out, T value) {
  out.append(value ? "true" : "false");
}
template <typename T>
requires(std::is_arithmetic_v<T> && !std::is_same_v<T, char> &&
         !std::is_same_v<T, bool>) void append(std::string& out, T value) {
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, end.ptr);
}
}  // namespace internal

/// Joins text and numbers: cat("offset ", 12, " of ", name).
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (internal::append(out, parts), ...);
  return out;
}

/// ASCII letters folded, whatever the locale; all else stays.
std::string lower(std::string_view text);
std::string upper(std::string_view text);

/// "0x1f40".
std::string hex(std::uint64_t value);

/// 65536 -> "64 KiB"; 1500 -> "1500 B"; exact values only get a larger unit when they divide,
/// others get one decimal from 10 KiB on.
std::string format_bytes(std::uint64_t bytes);

/// "64K", "64KiB", "1.5G", "4096" -> bytes, in powers of 1024. Errors: invalid_argument.
Result<std::uint64_t> parse_bytes(std::string_view text);

/// A name that may hold any bytes, made safe to print: printable ASCII stays, the rest is `\\xNN`,
/// and more than `limit` bytes are cut with "...".
std::string printable(std::string_view name, std::size_t limit = 64);

/// A name that may hold any bytes, as letters, digits, '-', '_' and '.', everything else %XX: safe
/// as a file name or a key, and two names never meet in one encoding. "." and ".." are encoded too.
std::string path_safe(std::string_view name);

}  // namespace towpath
