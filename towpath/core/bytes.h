// Spans and units of bytes. A span is a loan: whoever hands one out says until when it holds.
// Thread: immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace towpath {

using ByteSpan = std::span<std::byte>;
using ConstByteSpan = std::span<const std::byte>;
using Bytes = std::vector<std::byte>;  ///< owned bytes, for control messages; never for payload

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

inline ConstByteSpan as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ConstByteSpan bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes to_bytes(std::string_view text) {
  auto span = as_bytes(text);
  return {span.begin(), span.end()};
}

/// To where `to` points, which has room for all of them, elsewhere; returns the end of it. In place
/// of std::ranges::copy, which libstdc++ 12 makes byte by byte if the source is const
/// (docs/gotchas/README.md).
inline std::byte* copy_bytes(ConstByteSpan from, std::byte* to) noexcept {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
  return to + from.size();
}

/// The bytes at an address of this process. The caller vouches for them.
inline ByteSpan bytes_at(std::uint64_t address, std::uint64_t length) noexcept {
  return {reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address)), length};
}
inline std::uint64_t address_of(const void* pointer) noexcept {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(pointer));
}

}  // namespace towpath
