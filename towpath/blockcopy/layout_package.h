// LayoutPackage: the caches of one agent and its metadata, as bytes for another process. The
// format: docs/formats/layout_package.md.
//
// What comes in is hostile: bounded before anything is allocated, and every layout is validated
// and must be of the agent whose metadata it comes with. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>
#include <towpath/layout/remote_layout.h>

namespace towpath::blockcopy {

inline constexpr std::uint16_t kLayoutPackageVersion = 1;
inline constexpr std::uint32_t kMaxPackedLayouts = 4096;
inline constexpr std::uint64_t kMaxTierName = 64;

struct PackedLayout {
  std::uint64_t id = 0;  ///< of its agent's choosing; never used again for another
  std::string tier;      ///< what the agent calls it
  std::uint64_t first_layer = 0;
  std::uint64_t first_head = 0;
  Bytes layout;  ///< a message of its own
};

struct LayoutPackage {
  Bytes metadata;
  std::vector<PackedLayout> layouts;
};

/// Errors: out_of_range (over a limit).
Result<Bytes> encode(const LayoutPackage& package);

/// A package that was read, and holds together.
struct OpenPackage {
  AgentIdentity agent;
  Bytes metadata;
  struct Entry {
    std::uint64_t id = 0;
    std::string tier;
    std::uint64_t first_layer = 0;
    std::uint64_t first_head = 0;
    layout::RemoteLayout layout;
  };
  std::vector<Entry> layouts;
};
/// Errors: as wire::open(), agent::decode_metadata() and RemoteLayout::decode(); invalid_argument
/// (a layout of another agent than the metadata's; an id twice).
Result<OpenPackage> open_package(ConstByteSpan bytes);

}  // namespace towpath::blockcopy
