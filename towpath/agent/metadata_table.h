// The regions of metadata, a row each: what differs from the row before (docs/formats/metadata.md).
//
// A pool is thousands of regions of one size, some steps apart, and their keys differ in a few
// bytes: a row of such a one takes some 30 bytes with two keys, and no copy to make.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <towpath/agent/metadata.h>
#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::agent {

inline constexpr std::uint32_t kMaxMetadataBackends = 64;
inline constexpr std::uint32_t kMaxMetadataRegions = 4'000'000;
inline constexpr std::size_t kMaxObjectKey = 4096;

/// What a row reports: a loan.
struct TableRow {
  const RegionDescriptor* region = nullptr;                   ///< null: before the first row
  std::vector<std::pair<std::uint32_t, ConstByteSpan>> keys;  ///< number of the backend, key
};

// Errors: out_of_range (over a bound of the format).
Status check_row(const TableRow& row);
Status check_rows(std::size_t count);

/// Row by row, so that an agent need not hold all keys at once.
class TableWriter {
 public:
  explicit TableWriter(std::size_t rows = 0);
  /// `row` has passed check_row(); `before` stands directly before it.
  void add(const TableRow& row, const TableRow& before);
  /// A row that was written before, against the one that stands directly before it.
  void add_written(ConstByteSpan row);
  /// What stands behind the first `size` bytes goes.
  void cut(std::size_t size) noexcept { size_ = size; }

  ConstByteSpan bytes() const noexcept { return {bytes_.data(), size_}; }
  Bytes finish() &&;

 private:
  /// Room for `size` more bytes, as long as nothing else is written.
  std::byte* room(std::size_t size);

  Bytes bytes_;
  std::size_t size_ = 0;  // of bytes_, what is written
};

/// Row by row, each from the one before. The table is hostile, and must outlive the reader.
class TableReader {
 public:
  /// `backends`: how many the metadata has.
  TableReader(ConstByteSpan table, std::size_t backends)
      : at_(table.data()), begin_(at_), end_(at_ + table.size()), backends_(backends) {}
  bool at_end() const noexcept { return at_ == end_; }
  /// How many rows the whole table has, if all are as long as those before: a few more.
  std::size_t rows_to_expect() const noexcept;

  /// The next row; valid until the one after it. Errors: corrupt, out_of_range; then there is no
  /// further row.
  Result<const AgentMetadata::Region*> next();

 private:
  std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }
  bool take_number(std::uint64_t& number) noexcept;
  Result<ConstByteSpan> take_sized(std::uint64_t most);
  Status take_place(std::uint8_t said);
  Status take_keys();
  Status take_differences();
  Status take_difference(Bytes& key);
  Status check_sum() const;
  Status broken(std::string_view what) const;

  const std::byte* at_;
  const std::byte* const begin_;
  const std::byte* const end_;
  const std::size_t backends_;
  AgentMetadata::Region row_;
  std::uint64_t rows_ = 0;
  std::uint64_t key_bytes_ = 0;
};

}  // namespace towpath::agent
