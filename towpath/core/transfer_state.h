// What a transfer does, where it stands, and how it ended.
//
//                 post                 outcome fixed          quiet
//   [ prepared ] ------> [ active ] ------------------> [ draining ] ------> [ ended ]
//        ^                    |            (deadline, cancel, peer lost)         |
//        |                    +----------- done or failed, and quiet ---------->|
//        +---------------------------------- post again ------------------------+
//
// Numbers are part of the C interface: never renumber.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace towpath {

enum class TransferOp : std::uint8_t {
  read = 0,   ///< from the remote side into the local side (a pull)
  write = 1,  ///< from the local side into the remote side (a push)
};

enum class TransferState : std::uint8_t {
  prepared = 0,  ///< made, not posted
  active = 1,    ///< bytes are moving
  draining = 2,  ///< the outcome is fixed, but bytes may still move: buffers must not be reused
  ended = 3,     ///< quiesced: no byte can land in, or leave, either side's buffers
};

enum class Outcome : std::uint8_t {
  none = 0,  ///< not decided yet
  done = 1,
  failed = 2,
  cancelled = 3,
  timed_out = 4,
  peer_lost = 5,
};

std::string_view name_of(TransferOp op) noexcept;
/// Folds case.
std::optional<TransferOp> transfer_op_from_name(std::string_view name) noexcept;
std::string_view name_of(TransferState state) noexcept;
std::string_view name_of(Outcome outcome) noexcept;

}  // namespace towpath
