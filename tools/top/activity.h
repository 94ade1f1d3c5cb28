// Activity: what a node did in an extent of time, by peer, backend and operation, as far as its
// flight recorder still knows it.
//
// A recorder is a ring: of a busy node it may hold less than the extent. Then `covered` is what it
// holds, and rates are those of that time. What was posted before its oldest record and has not
// ended is not seen.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <towpath/telemetry/flight_log.h>

namespace towpath::tools {

struct Activity {
  struct Path {
    std::string peer, backend, op;
    friend auto operator<=>(const Path&, const Path&) = default;
  };
  struct Figures {
    std::uint64_t ended = 0;   ///< transfers, in the extent
    std::uint64_t failed = 0;  ///< of them, whatever is not done
    std::uint64_t bytes = 0;
    std::vector<Duration> times;  ///< of each, ascending
    std::uint64_t in_flight = 0;  ///< at its end
    std::uint64_t bytes_in_flight = 0;
    Instant oldest;  ///< of those in flight, when it was posted
  };
  struct Place {
    std::uint64_t tier = 0;  ///< 0: the fastest; the highest: a miss
    std::string name;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Found {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;  ///< 0: the recorder is of an older release
  };
  struct Talk {
    std::uint64_t sent = 0, received = 0, refused = 0;  ///< notifications
  };

  Instant from, to;  ///< the extent; what lies outside is not counted
  std::map<Path, Figures> paths;
  std::map<std::string, Talk> talks;  ///< by peer
  std::map<Place, Found> found;       ///< what the node's cache was asked for
  std::uint64_t missed = 0;           ///< of those blocks, the misses
  std::vector<std::string> lost;      ///< peers
  std::uint64_t records = 0;
  bool closed = false;     ///< the agent said farewell
  bool overtaken = false;  ///< the ring held less than was asked for: `from` is its oldest record

  Duration covered() const { return to - from; }
};

/// From `from` to `to`; the recorder's oldest record where it began later.
Activity activity_of(const telemetry::FlightLog& log, Instant from, Instant to);

}  // namespace towpath::tools
