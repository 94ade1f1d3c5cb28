// What an agent and its cache write into a flight recorder: codes, and what the arguments of each
// mean.
//
//   what               who       args
//   agent_opened       agent     incarnation
//   agent_closed       agent     incarnation
//   transfer_posted    peer      bytes, descriptors, flow, runs (0 in old files)
//   transfer_ended     peer      ticket of its transfer_posted, bytes moved, nanoseconds, flow
//   peer_met           peer      incarnation
//   peer_lost          peer      incarnation, code
//   registered         backend   bytes, memory kind
//   deregistered       backend   bytes, memory kind
//   notification_sent, _received, _refused   peer   bytes
//   blocks_found       tier      blocks, which tier (0: the fastest), 1 where it is no tier
//                                (a miss), bytes (0 in old files)
//
// Numbers rest in files: never renumber, only append.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string_view>

#include <towpath/core/memory_kind.h>
#include <towpath/core/status.h>
#include <towpath/core/transfer_state.h>

namespace towpath::telemetry {

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

}  // namespace towpath::telemetry
