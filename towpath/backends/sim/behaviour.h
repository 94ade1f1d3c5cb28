// Behaviour: what a simulated network does to those who use it. All chances are per thousand.
// Thread: immutable.
#pragma once

#include <cstdint>

#include <towpath/backend/capabilities.h>
#include <towpath/core/clock.h>

namespace towpath::backends::sim {

/// The default is calm: no delay, no loss, nothing fails.
struct Behaviour {
  // What the backend declares, and then does.
  backend::Quiescence quiesced = backend::Quiescence::immediate;
  Duration quiescence_bound{0};  ///< for `bounded`: a cancelled transfer takes up to this long
  backend::Notifications notifications = backend::Notifications::reliable;

  // Transfers.
  Duration longest_step{0};               ///< each piece of bytes takes up to this long
  std::uint64_t piece_bytes = 64 * 1024;  ///< of the largest piece
  bool tears = false;                     ///< pieces end anywhere
  unsigned eager = 0;                     ///< complete inside post()
  unsigned silent = 0;                    ///< stop somewhere and never answer by themselves
  unsigned failing = 0;                   ///< extents that fail somewhere in the middle

  // Messages. Over a reliable network they are only delayed.
  Duration longest_way{0};
  unsigned dropped = 0;
  unsigned repeated = 0;
  unsigned torn = 0;  ///< cut short or with bytes changed
};

}  // namespace towpath::backends::sim
