// PieceTable: which peers are in the middle of moving a piece, by plain shared memory.
//
// A piece is what a peer moves in one call: at most a slice. The table is a sealed memfd of the
// owner that peers map for writing; each connection of a peer claims an entry in it. A peer makes
// its turn odd, looks whether what it wants to touch still stands (registration table.h), moves,
// and makes the turn even. The owner takes marks away, and then reads the turns:
//
//   owner                                peer
//   mark = 0                             turn = odd
//   -------- sequentially consistent: one of the two sees the other ---------
//   read the turns: who is in a piece?   read the mark: does it stand?
//
// So a peer that the owner does not find in a piece finds the mark gone. Whom it finds, it waits
// for: the next piece sees the mark, so one change of the turn is enough.
//
//   64 bytes each:  | used | ... |  then entries  | holder | turn | name ... |
//
// Peers of one host can read and write each other's memory anyway: an entry proves nothing against
// one that lies. It can make the owner wait until its timeout, no longer.
// Thread: loop, unless noted. docs/formats/shm.md
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include <towpath/backend/backend.h>
#include <towpath/backends/shm/host_facts.h>
#include <towpath/core/result.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::shm {

struct PieceEntryWords;

class PieceTable {
 public:
  static constexpr std::string_view kName = "towpath-shm-pieces";  ///< its memfd's
  static constexpr std::uint32_t kEntries = 1024;
  static constexpr std::uint64_t kEntryBytes = 64;
  static constexpr std::uint64_t kSize = (kEntries + 1) * kEntryBytes;

  static Result<PieceTable> create();
  FileRef file() const noexcept { return file_; }

  /// The pieces that peers are in at this moment; null: none is. What it returns borrows the table.
  /// Cost: a load for each entry that was ever claimed.
  std::unique_ptr<backend::PeerPieces> under_way() const;

 private:
  PieceTable(sys::Fd fd, FileRef file, sys::Mapping mapping) noexcept
      : fd_(std::move(fd)), file_(file), mapping_(std::move(mapping)) {}

  sys::Fd fd_;
  FileRef file_;
  sys::Mapping mapping_;
};

/// The process that claims an entry.
struct PieceHolder {
  std::uint32_t pid = 0;
  std::uint64_t start_time = 0;
  std::string_view name;  ///< of the agent, for errors of the owner
};

/// An entry in a peer's table, given back when it dies. A forked child does not have it.
class PieceEntry {
 public:
  PieceEntry() = default;
  PieceEntry(PieceEntry&&) noexcept = default;
  ~PieceEntry();

  /// `fd` is sealed (see peer_file.h), open for writing, and borrowed. Errors: out_of_range (too
  /// small to be a table), exhausted (kEntries connections of processes that live).
  static Result<PieceEntry> claim(int fd, const PieceHolder& holder);

  void begin_piece() const noexcept;
  void end_piece() const noexcept;

 private:
  PieceEntry(sys::Mapping mapping, std::uint32_t index) noexcept
      : mapping_(std::move(mapping)), index_(index) {}
  PieceEntryWords& words() const noexcept;

  sys::Mapping mapping_;
  std::uint32_t index_ = 0;
};

/// A piece, for a scope.
class InPiece {
 public:
  explicit InPiece(const PieceEntry& entry) noexcept : entry_(entry) { entry_.begin_piece(); }
  InPiece(const InPiece&) = delete;
  InPiece& operator=(const InPiece&) = delete;
  ~InPiece() { entry_.end_piece(); }

 private:
  const PieceEntry& entry_;
};

}  // namespace towpath::backends::shm
