// Metadata: what an agent gives its peers. (NIXL's users say "metadata".)
//
// Who it is, how each of its backends is reached, and its registered regions with each backend's
// key. Encoded by wire/ (docs/formats/metadata.md): versioned, bounded, checksummed; unknown
// optional fields are skipped, everything else unknown is refused by name. Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/descriptor.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>

namespace towpath::agent {

struct AgentMetadata {
  struct Backend {
    std::string name;
    Bytes connection_info;
  };
  struct Region {
    RegionDescriptor region;  ///< without fd: that is reported to backends only, by their keys
    std::vector<std::pair<std::uint32_t, Bytes>> keys;  ///< index into `backends`, key
  };

  AgentIdentity identity;
  std::uint64_t generation = 0;  ///< not 0; grows with each change of the agent's registrations
  bool partial = false;          ///< adds to what is known; a full metadata replaces it
  std::vector<Backend> backends;
  std::vector<Region> regions;
};

inline constexpr std::size_t kMaxMetadataBytes = std::size_t{256} << 20U;
inline constexpr std::size_t kMaxConnectionInfo = 64 * 1024;
inline constexpr std::size_t kMaxRegionKey = 16 * 1024;

/// Errors: invalid_argument or out_of_range (over a bound of the format).
Result<Bytes> encode(const AgentMetadata& metadata);
/// With these regions (metadata_table.h), whatever `metadata` says of them.
Result<Bytes> encode(const AgentMetadata& metadata, ConstByteSpan table);
/// Errors: corrupt, unsupported (a newer format), out_of_range (a region that wraps, a count over
/// its bound).
Result<AgentMetadata> decode_metadata(ConstByteSpan bytes);

/// Metadata whose table is not read yet (TableReader in metadata_table.h): `metadata` has the
/// regions that stand outside of it, as version 1 wrote them. A loan of the bytes of the metadata.
struct OpenedMetadata {
  AgentMetadata metadata;
  ConstByteSpan table;
};
/// Errors: as decode_metadata(), but those of the table.
Result<OpenedMetadata> open_metadata(ConstByteSpan bytes);

}  // namespace towpath::agent
