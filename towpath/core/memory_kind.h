// The kinds of memory that bytes can live in.
//
// The numbers travel in metadata and rest on disk: never renumber, only append.
// Thread: immutable.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace towpath {

enum class MemoryKind : std::uint8_t {
  system = 0,  ///< ordinary host memory; an address of its process
  pinned = 1,  ///< host memory that a GPU can reach directly; an address of its process
  device = 2,  ///< GPU memory; a device address and the GPU's ordinal
  disk = 3,    ///< a file; an offset and the file's descriptor number
  object = 4,  ///< an object of a store; an offset and a key
  block = 5,   ///< a raw device or namespace; a byte offset and a device id
};

inline constexpr std::array kMemoryKinds = {MemoryKind::system, MemoryKind::pinned,
                                            MemoryKind::device, MemoryKind::disk,
                                            MemoryKind::object, MemoryKind::block};

/// "system", "pinned", ... ; "unknown" for a number that is none.
std::string_view name_of(MemoryKind kind) noexcept;

/// The kind with this name, whatever its case.
std::optional<MemoryKind> memory_kind_from_name(std::string_view name) noexcept;

/// The kind with this number, for numbers that come from outside.
std::optional<MemoryKind> memory_kind_from_number(std::uint64_t number) noexcept;

/// Whether this process can load and store at addresses of this kind.
constexpr bool is_host_addressable(MemoryKind kind) noexcept {
  return kind == MemoryKind::system || kind == MemoryKind::pinned;
}

}  // namespace towpath
