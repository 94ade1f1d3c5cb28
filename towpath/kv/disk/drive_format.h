// What a drive holds that is the place of stores, as bytes: docs/formats/kv_drive.md draws it.
//
//   | label | holder |   | table | table |   | slot 0 | slot 1 | ...
//
// A file is a slot, and the table says which. Of the two tables the later one counts that is whole:
// they are written in turn. What is read is hostile: bounded, and proven by the envelope's
// checksum. Pure: it sees no drive. Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::kv {

inline constexpr std::uint64_t kDrivePage = 4096;
inline constexpr std::uint64_t kHolderAt = kDrivePage;  ///< which process has it, in words: a page
inline constexpr std::size_t kMaxDriveName = 255;  ///< bytes of a file's name, its folder's too

/// How a drive is divided.
struct DriveLabel {
  std::uint64_t slot_bytes = 0;
  std::uint64_t slots = 0;

  /// Of each table.
  std::uint64_t table_bytes() const noexcept;
  std::uint64_t table_at(std::uint64_t sequence) const noexcept;
  std::uint64_t slot_at(std::uint64_t slot) const noexcept;
  /// What all of it needs.
  std::uint64_t end() const noexcept { return slot_at(slots); }

  friend bool operator==(const DriveLabel&, const DriveLabel&) = default;
};

/// For a drive of so many bytes: some 256 slots of at most 256 MiB; beyond 256 GiB a thousand, of
/// at most 1 GiB. Errors: exhausted (it is too small).
Result<DriveLabel> divide_drive(std::uint64_t bytes);

struct DriveFile {
  std::string name;
  std::uint64_t slot = 0;

  friend bool operator==(const DriveFile&, const DriveFile&) = default;
};

struct DriveTable {
  std::uint64_t sequence = 0;  ///< grows with each writing
  std::vector<DriveFile> files;

  friend bool operator==(const DriveTable&, const DriveTable&) = default;
};

/// A page.
Bytes seal_drive_label(const DriveLabel& label);
/// `page` is a page. Errors: corrupt (no label, or of no drive that is so long), unsupported (a
/// later version's).
Result<DriveLabel> open_drive_label(ConstByteSpan page, std::uint64_t drive_bytes);

/// At most DriveLabel::table_bytes(), in whole pages.
Bytes seal_drive_table(const DriveTable& table);
/// Errors: corrupt (also for a slot that is not there, or has two names), unsupported.
Result<DriveTable> open_drive_table(ConstByteSpan bytes, const DriveLabel& label);

}  // namespace towpath::kv
