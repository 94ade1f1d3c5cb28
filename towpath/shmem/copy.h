// Copies between heaps. Small ones are inlined; very large ones go past the cache, since neither
// side would find them there anyway.
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace towpath::shmem {

/// From here on copy_bytes() writes past the cache; measured in bench/shmem.cc.
inline constexpr std::uint64_t kStreamBytes = 8ULL << 20U;

/// As memcpy(3), with streaming stores. The bytes are visible to others after the next store that
/// is, as with ordinary stores.
void stream_bytes(std::byte* to, const std::byte* from, std::uint64_t count) noexcept;

inline void copy_bytes(void* to, const void* from, std::uint64_t count) noexcept {
  if (count >= kStreamBytes) [[unlikely]]
    return stream_bytes(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), count);
  if (count != 0) std::memmove(to, from, count);
}

}  // namespace towpath::shmem
