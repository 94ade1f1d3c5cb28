// Words: what KVBM v2 says of a KV cache to its peers (its LayoutDescriptor, version 1), before
// anybody asked whether it makes sense; and what that is in words of ours.
//
// Both its forms, JSON (layout.h) and packed (package.h), read into these words and write
// from them. The numbers of the enumerators are those of the packed form, their names stand in the
// tables below for JSON.
// Thread: immutable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/compat/kvbm/layout.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>
#include <towpath/layout/layout.h>

namespace towpath::kvbm {

inline constexpr std::uint64_t kLayoutVersion = 1;

/// Where memory is. `device` and `disk` come with a number: the GPU's, the file descriptor's.
enum class Storage : std::uint8_t { system, pinned, device, disk };
/// The same in NIXL's words.
enum class NixlMemory : std::uint8_t { dram, vram, block, object, file, unknown };
enum class Kind : std::uint8_t { fully_contiguous, layer_separate };
/// The order within a block. KVBM's later releases left `universal_pp` out, call the first one
/// "Universal", and count on from there.
enum class Order : std::uint8_t {
  universal_tp,
  universal_pp,
  operational_hnd,
  operational_nhd,
  custom,
  unknown,
};

inline constexpr std::array<std::string_view, 4> kStorageWords = {"System", "Pinned", "Device",
                                                                  "Disk"};
inline constexpr std::array<std::string_view, 6> kNixlMemoryWords = {"Dram",   "Vram", "Block",
                                                                     "Object", "File", "Unknown"};
inline constexpr std::array<std::string_view, 2> kKindWords = {"FullyContiguous", "LayerSeparate"};
inline constexpr std::array<std::string_view, 1> kFormatWords = {"Operational"};
inline constexpr std::array<std::string_view, 2> kDimensionWords = {"BlockIsFirstDim",
                                                                    "BlockIsSecondDim"};
inline constexpr std::array<std::string_view, 6> kOrderWords = {
    "UniversalTP", "UniversalPP", "OperationalHND", "OperationalNHD", "Custom", "Unknown"};

constexpr std::string_view word_of(Storage storage) noexcept {
  return kStorageWords[static_cast<std::size_t>(storage)];
}
constexpr std::string_view word_of(NixlMemory memory) noexcept {
  return kNixlMemoryWords[static_cast<std::size_t>(memory)];
}
constexpr std::string_view word_of(Kind kind) noexcept {
  return kKindWords[static_cast<std::size_t>(kind)];
}
constexpr std::string_view word_of(layout::BlockDimension dimension) noexcept {
  return kDimensionWords[static_cast<std::size_t>(dimension)];
}
constexpr std::string_view word_of(Order order) noexcept {
  return kOrderWords[static_cast<std::size_t>(order)];
}

constexpr bool has_number(Storage storage) noexcept {
  return storage == Storage::device || storage == Storage::disk;
}

struct Words {
  layout::LayoutConfig config;  ///< without its format: that is `order`
  Storage storage = Storage::system;
  std::uint64_t storage_number = 0;  ///< where the storage has one
  std::string agent_name;
  NixlMemory memory = NixlMemory::dram;
  std::uint64_t device_id = 0;  ///< as NIXL knows the memory
  std::vector<layout::RegionExtent> regions;
  Kind kind = Kind::fully_contiguous;
  layout::BlockDimension dimension = layout::BlockDimension::first;  ///< of separate layers
  Order order = Order::unknown;
};

/// Errors: unsupported (another version than 1).
Status check_kvbm_version(std::uint64_t version);

/// The failure of what version 1 cannot say: always unsupported.
Status no_kvbm_word_for(std::string_view what, std::string_view hint);

/// Errors: unsupported (an empty name, or one that is no UTF-8).
Status check_kvbm_name(const std::string& name);

/// In words of ours, validated. KVBM writes its alignment down and moves no block by it, so here it
/// is 1.
/// Errors: as LayoutDescriptor::validate(); invalid_argument (another agent's name, no incarnation,
/// memory that NIXL knows as something else); unsupported (an order of no name here, or an unknown
/// one).
Result<layout::LayoutDescriptor> descriptor_of(Words words, const Terms& terms);

/// In KVBM's words. Errors: as LayoutDescriptor::validate(); unsupported (what its version 1 has no
/// word for: a strided layout, a region per block, objects, raw drives, an alignment that moves
/// blocks, an agent's name that is no UTF-8, a GPU's number of more than 32 bits).
Result<Words> kvbm_words_of(const layout::LayoutDescriptor& descriptor);

}  // namespace towpath::kvbm
