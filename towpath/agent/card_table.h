// The regions of a card, a row each: what differs from the row before (docs/formats/card.md).
//
// A pool is thousands of regions of one size, some steps apart, and their keys differ in a few
// bytes: a row of such a one takes some 30 bytes with two keys, and no copy to make.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <towpath/agent/card.h>
#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::agent {

inline constexpr std::uint32_t kMaxCardBackends = 64;
inline constexpr std::uint32_t kMaxCardRegions = 4'000'000;
inline constexpr std::size_t kMaxObjectKey = 4096;

/// Row by row, so that an agent need not hold all keys at once.
class TableWriter {
 public:
  /// Index of the backend, key.
  using Keys = std::vector<std::pair<std::uint32_t, ConstByteSpan>>;

  explicit TableWriter(std::size_t rows);
  /// The bytes of `keys` stay as they are until the next row.
  void add(const RegionDescriptor& region, const Keys& keys);
  /// Errors: out_of_range (over a bound of the format).
  Result<Bytes> finish() &&;

 private:
  Status check(const RegionDescriptor& region, const Keys& keys) const;

  Bytes bytes_;
  RegionDescriptor before_;  // but for its object key
  Keys keys_before_;
  std::size_t rows_ = 0;
  Status failure_;
};

/// Adds to `into`. `table` is hostile; `backends` stand before it in the card. Errors: corrupt,
/// out_of_range.
Status decode_table(ConstByteSpan table, std::size_t backends, std::vector<Card::Region>& into);

}  // namespace towpath::agent
