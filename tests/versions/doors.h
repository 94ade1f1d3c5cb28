// Door: a place where bytes of another release come in, and the version that they carry.
//
// The table is what docs/formats/README.md says in words. Thread: immutable.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::versions {

/// Where the version stands, little-endian.
struct VersionPlace {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool in_envelope = false;  ///< there, and covered by its checksum
  bool from_end = false;     ///< `offset` counts back from the end

  std::size_t begin_in(ConstByteSpan all) const { return from_end ? all.size() - offset : offset; }
};

struct Door {
  std::string name;  ///< and of the file that has the recorded bytes
  VersionPlace place;
  std::uint64_t version = 1;  ///< that this release writes
  std::uint64_t oldest = 1;   ///< that it reads
  std::function<Bytes()> write;
  std::function<Status(ConstByteSpan)> read;
  bool is_fixed = true;  ///< each writing gives the same bytes: no numbers are drawn
};

std::vector<Door> all_doors();

std::uint64_t version_in(const VersionPlace& place, ConstByteSpan bytes);
/// The same bytes, as if they were of that version.
Bytes with_version(const VersionPlace& place, Bytes bytes, std::uint64_t version);

}  // namespace towpath::versions
