// Digest: what a block's bytes add up to. It travels from the producer of a block to its last
// reader, over the wire, to disk and back; bytes that do not match it are never data.
//
// Taken in canonical order, layer by layer, outer by outer, and there as the bytes lie, which is
// token by token (BlockFormat::nhd): the same block has the same digest in every layout of that
// format, and another where heads come first (hnd). It finds damage, not malice.
// Thread: Digest immutable; Digester none of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/layout/physical_layout.h>

namespace towpath::kv {

/// Numbers rest on disk and travel: never renumber.
enum class DigestAlgorithm : std::uint8_t {
  xxh3_64 = 1,
  crc32c = 2,  ///< Castagnoli's polynomial, as iSCSI and drives use it; the salt comes first
};

/// "xxh3_64", "crc32c"; "unknown" for what this version does not know.
std::string_view name_of(DigestAlgorithm algorithm) noexcept;
/// Errors: invalid_argument, with the names that there are.
Result<DigestAlgorithm> digest_named(std::string_view name);

struct Digest {
  DigestAlgorithm algorithm = DigestAlgorithm::xxh3_64;
  std::uint64_t salt = 0;
  std::uint64_t value = 0;

  friend bool operator==(const Digest&, const Digest&) = default;
};

/// "xxh3_64:0x5f3a... salt 0x1".
std::string to_string(const Digest& digest);

/// Reusable; one at a time.
class Digester {
 public:
  explicit Digester(std::uint64_t salt, DigestAlgorithm algorithm = DigestAlgorithm::xxh3_64);
  ~Digester();
  void add(ConstByteSpan bytes);
  /// Copies `from` to `to`, which is as long and does not overlap it, and adds what it has written
  /// there, in one pass: where bytes come from memory it takes about as long as the copy.
  void copy(ByteSpan to, ConstByteSpan from);
  /// The digest of all that was added since the last finish().
  Digest finish();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

/// Of bytes that lie in one piece, in canonical order.
Digest digest_of(ConstByteSpan bytes, std::uint64_t salt,
                 DigestAlgorithm algorithm = DigestAlgorithm::xxh3_64);

/// As Digester::copy(): of what was written to `to`.
Digest copy_and_digest(ByteSpan to, ConstByteSpan from, std::uint64_t salt,
                       DigestAlgorithm algorithm = DigestAlgorithm::xxh3_64);

/// Errors: those of PhysicalLayout::bytes (no such block; memory that this process cannot reach;
/// unsupported: universal and strided layouts, whose pages do not lie together).
Result<Digest> digest_block(Digester& digester, const layout::PhysicalLayout& layout,
                            std::uint64_t block);

}  // namespace towpath::kv
