// Registration table: which registrations of a backend stand, reported to its peers by plain shared
// memory.
//
// One word per registration in a sealed memfd that peers map read-only. The owner writes a
// generation there and a 0 when it takes the registration back; peers look in every piece, so a
// stale key never leads to more than the piece that is running already. Word 0 stands for the
// backend itself.
//
//   word:  0 backend | 1 | 2 | ... | kSlots - 1          value: 0 free, else its generation
//
// Behind the words it is said of each slot which bytes are registered there: a key comes in
// metadata, which may have been written by anybody that has seen the owner's, and must agree.
//
// Whether a peer is in the middle of something, the piece table says (piece_table.h).
// Thread: loop of its backend; peers read at any time.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <towpath/backends/shm/host_facts.h>
#include <towpath/core/result.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::shm {

struct Slot {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

/// Which bytes are registered in a slot. Of the backend's: registered_bytes_of() its info.
struct RegisteredBytes {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  /// Where peers find them: a memfd's device and inode, or what a driver exported; 0: in the
  /// owner's memory alone.
  std::array<std::uint64_t, 2> source{};
  std::uint64_t offset = 0;   ///< there
  bool is_read_only = false;  ///< nobody can write to them

  friend bool operator==(const RegisteredBytes&, const RegisteredBytes&) = default;
};

class RegistrationTable {
 public:
  static constexpr std::string_view kName = "towpath-shm-registrations";  ///< its memfd's
  static constexpr std::uint32_t kSlots = 256 * 1024;  // 11 MiB of address space, used as it fills
  static constexpr Slot kBackend{0, 1};

  /// `backend`: what peers hold its info against.
  static Result<RegistrationTable> create(const RegisteredBytes& backend = {});
  RegistrationTable(RegistrationTable&&) noexcept = default;
  /// Informs peers that all of it is over.
  ~RegistrationTable();

  /// Errors: exhausted (kSlots registrations stand).
  Result<Slot> take(const RegisteredBytes& what = {});
  /// Peers see that it does not stand any more. The slot is not free yet.
  void revoke(Slot slot) noexcept;
  /// The same, and another registration may have the slot.
  void give_back(Slot slot) noexcept;
  FileRef file() const noexcept { return file_; }

 private:
  RegistrationTable(sys::Fd fd, FileRef file, sys::Mapping mapping) noexcept
      : fd_(std::move(fd)), file_(file), mapping_(std::move(mapping)) {}

  sys::Fd fd_;
  FileRef file_;
  sys::Mapping mapping_;
  std::vector<std::uint32_t> free_;
  std::uint32_t unused_ = 1;
  std::uint32_t generation_ = 0;
};

/// A peer's registration table, as hostile as the peer.
class PeerRegistrationTable {
 public:
  /// `fd` is sealed (see peer_file.h) and borrowed. Errors: out_of_range (too small to be one).
  static Result<PeerRegistrationTable> map(int fd);
  /// False for slots that no registration table has.
  bool stands(Slot slot) const noexcept;
  /// What is registered in the slot, if it stands when asked afterwards; no bytes if it does not
  /// yet stand.
  RegisteredBytes registered(Slot slot) const noexcept;

 private:
  explicit PeerRegistrationTable(sys::Mapping mapping) noexcept : mapping_(std::move(mapping)) {}
  sys::Mapping mapping_;
};

}  // namespace towpath::backends::shm
