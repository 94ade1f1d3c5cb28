// FlightRecorder: the last few thousand small facts, to be read after something went wrong.
//
// A ring of fixed records in memory that the caller passes in, so that it can be shared with
// another process and outlive the one that crashed. Recording costs one claimed cache line and a
// clock read; it never waits, allocates or calls the kernel. Not a log: codes and numbers only, the
// oldest are overwritten. Names that the numbers stand for (peers, backends) lie in a table in
// front of the ring. flight_log.h reads a copy of it; docs/formats/flight.md draws it.
//
// A slot's sequence is 0 when unused, 2 x ticket + 1 while ticket is being written, and
// 2 x ticket + 2 when its record is whole; readers believe whole records whose check word is right.
// A writer that finds its slot being written, because it was overtaken by a full round, drops its
// record and counts that. A process killed in the middle of a record costs that one slot for the
// life of the ring.
// Thread: any, and any process that maps the memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/memory_kind.h>
#include <towpath/core/result.h>
#include <towpath/core/status.h>
#include <towpath/core/transfer_state.h>

namespace towpath::telemetry {

/// What an agent and its cache write: codes, and what the arguments of each mean.
///
///   what               who       args
///   agent_opened       agent     incarnation
///   agent_closed       agent     incarnation
///   transfer_posted    peer      bytes, descriptors, flow, runs (0 in old files)
///   transfer_ended     peer      ticket of its transfer_posted, bytes moved, nanoseconds, flow
///   peer_met           peer      incarnation
///   peer_lost          peer      incarnation, code
///   registered         backend   bytes, memory kind
///   deregistered       backend   bytes, memory kind
///   notification_sent, _received, _refused   peer   bytes
///   blocks_found       tier      blocks, which tier (0: the fastest), 1 where it is no tier
///                                (a miss), bytes (0 in old files)
///
/// Numbers rest in files: never renumber, only append.
enum class FlightEvent : std::uint32_t {
  agent_opened = 1,
  agent_closed = 2,
  transfer_posted = 3,
  transfer_ended = 4,
  peer_met = 5,
  peer_lost = 6,
  registered = 7,
  deregistered = 8,
  notification_sent = 9,
  notification_received = 10,
  notification_refused = 11,
  blocks_found = 12,
};

/// "transfer_posted", ...; "unknown" for a number that is none.
std::string_view name_of(FlightEvent event) noexcept;

/// What kind of transfer, and how it ended, in one argument.
struct FlightFlow {
  TransferOp op = TransferOp::read;
  MemoryKind local = MemoryKind::system;
  MemoryKind remote = MemoryKind::system;
  Outcome outcome = Outcome::none;
  Code code = Code::ok;
  std::uint16_t backend = 0;  ///< a name's number

  /// From the lowest byte on: op, local, remote, outcome, code; two bytes for the backend.
  std::uint64_t packed() const noexcept;
  /// Numbers that are none of the enumerators stay what they are: their names are "unknown".
  static FlightFlow unpacked(std::uint64_t argument) noexcept;

  friend bool operator==(const FlightFlow&, const FlightFlow&) = default;
};

struct FlightRecord {
  using Args = std::array<std::uint64_t, 4>;

  std::uint64_t ticket = 0;  ///< counts all records of the ring; gaps were dropped or overwritten
  Instant at;
  std::uint32_t what = 0;  ///< a code of the caller's; FlightEvent has the agent's
  std::uint32_t who = 0;   ///< which of several speakers: a name of add_name(), or the caller's own
  Args args{};

  friend bool operator==(const FlightRecord&, const FlightRecord&) = default;
};

/// Whose ring it is: what a reader must know to distinguish one crash from another.
struct FlightOwner {
  std::uint64_t process = 0;  ///< its id
  bool marked = false;        ///< its file is marked in use (sys::File) for as long as it writes
};

class FlightRecorder {
 public:
  static constexpr std::size_t kSlotBytes = 64;
  static constexpr std::size_t kNames = 256;
  static constexpr std::size_t kMaxNameBytes = 56;  ///< longer names are cut
  static constexpr std::size_t kHeaderBytes = 128 + kNames * 64;
  static constexpr std::size_t bytes_for(std::size_t records) noexcept {
    return kHeaderBytes + records * kSlotBytes;
  }

  /// Makes an empty ring of `memory`, which stays the caller's and must outlive the recorder.
  /// Whatever it held is overwritten.
  /// Errors: invalid_argument (not aligned to 64 bytes, or no room for one record).
  static Result<FlightRecorder> format(ByteSpan memory, const Clock& clock,
                                       const FlightOwner& owner = {});
  /// Joins a ring that was made by format(), perhaps by another process.
  /// Errors: invalid_argument as above; corrupt (not a ring, or longer than `memory`); unsupported
  /// (made by another version).
  static Result<FlightRecorder> attach(ByteSpan memory, const Clock& clock);

  /// Returns the record's ticket, whether or not it had to be dropped.
  std::uint64_t record(std::uint32_t what, const FlightRecord::Args& args = {},
                       std::uint32_t who = 0) noexcept;
  /// As record(), at a moment that the caller knows already; `entry.ticket` is ignored.
  std::uint64_t record_at(const FlightRecord& entry) noexcept;

  /// Puts a name into the table and returns its number, from 1 on; 0 when the table is full. Names
  /// are not compared: keep the number.
  std::uint32_t add_name(std::string_view name) noexcept;

  /// The whole records, oldest first.
  std::vector<FlightRecord> dump() const;
  std::size_t capacity() const noexcept { return capacity_; }
  /// Records given up because a slower writer held the slot.
  std::uint64_t dropped() const noexcept;

 private:
  struct Header;
  struct Name;
  struct Slot;
  FlightRecorder(Header* header, std::size_t capacity, const Clock& clock) noexcept;

  Header* header_;
  Name* names_;
  Slot* slots_;
  std::size_t capacity_;  // our own copy: the one in shared memory is not believed twice
  const Clock* clock_;
};

}  // namespace towpath::telemetry
