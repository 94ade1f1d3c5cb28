// CRC32C: the checksum of Castagnoli's polynomial (RFC 3720, appendix B.4), by the processor's
// instruction where it has one. It finds every error of up to 32 bits in a row.
// Thread: any.
#pragma once

#include <cstdint>

#include <towpath/core/bytes.h>

namespace towpath::kv {

/// Goes on from `crc`, which is 0 at the begin: crc32c(crc32c(0, a), b) is that of a and b.
std::uint32_t crc32c(std::uint32_t crc, ConstByteSpan bytes);
/// Of `from`, which is copied to `to` in the same pass; that is as long and lies elsewhere.
std::uint32_t copy_and_crc32c(std::uint32_t crc, ByteSpan to, ConstByteSpan from);

/// The same without the instruction: what it is proven against, and where there is none.
std::uint32_t crc32c_by_table(std::uint32_t crc, ConstByteSpan bytes);

}  // namespace towpath::kv
