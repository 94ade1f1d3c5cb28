// What a drive says of itself: the two pages of Identify that this backend reads. Decoding is pure
// and bounded: the bytes come from a device and are believed no further than that.
//
// Offsets are those of the NVM Express Base Specification 2.0 (Identify Controller) and of the NVM
// Command Set Specification 1.0 (Identify Namespace).
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::backends::nvme {

struct ControllerIdentity {
  std::string model;  ///< trimmed; printable whatever the drive sent
  std::string serial;
  std::string firmware;
  std::uint8_t mdts = 0;         ///< the largest transfer is 2^mdts pages; 0: no limit is reported
  bool has_write_cache = false;  ///< a volatile one: completed writes may be lost with the power
  bool deallocates = false;      ///< knows Dataset Management

  /// Of one command, in bytes, with the smallest page there is (4096); UINT64_MAX: no limit.
  std::uint64_t max_transfer_bytes() const noexcept;
};

struct NamespaceIdentity {
  std::uint64_t blocks = 0;  ///< its size
  std::uint32_t block_bytes = 0;
};

/// Errors: corrupt (another size than 4096 bytes, or an MDTS that no arithmetic holds).
Result<ControllerIdentity> decode_controller(ConstByteSpan page);

/// Errors: corrupt (as above; a format that is not in the drive's list), not_found (the namespace
/// has no blocks: it is not attached), unsupported (blocks with metadata, or shorter than 512 or
/// longer than 65536 bytes).
Result<NamespaceIdentity> decode_namespace(ConstByteSpan page);

}  // namespace towpath::backends::nvme
