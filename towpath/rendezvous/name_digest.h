// What stands for a name that is too long for its place. Thread: any.
#pragma once

#include <cstdint>
#include <string_view>

namespace towpath::rendezvous {

/// FNV-1a: distinguishes names, and is not meant to resist anyone (what is found carries its name).
constexpr std::uint64_t digest_of(std::string_view text) noexcept {
  std::uint64_t digest = 0xcbf29ce484222325;
  for (char letter : text) digest = (digest ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return digest;
}

}  // namespace towpath::rendezvous
