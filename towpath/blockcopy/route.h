// Route: by which way blocks go from one layout to another: one hop, or two over a bounce buffer.
//
//   from \ to   host     device            storage                  remote
//   host        memory   engine            write                    write
//   device      engine   engine            engine, write (write)    engine, write (write)
//   storage     read     read, engine (read)   read, write          read, write
//   remote      read     read, engine (read)   read, write          read, write
//
// Where pieces are short and a device's kernel reaches both ends (device memory, pinned memory,
// also that of a bounce buffer), it takes the place of the engine: one launch instead of a copy for
// each row or piece.
//
// In brackets: what is taken instead where a direct way was proven. Host is system and pinned
// memory of this process; storage is a file, an object or a raw drive; remote is any memory of
// another agent, which this process can never load from or store to.
//
// Where the order of bytes differs and pieces are short, no engine and no wire is asked to move
// them: the bytes cross as they lie on the far side, and this process reorders them in the bounce
// buffer. A Route is a decision; it moves nothing. Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <towpath/core/memory_kind.h>

namespace towpath::blockcopy {

enum class RouteEnd : std::uint8_t { host, device, storage, remote };
std::string_view name_of(RouteEnd end) noexcept;
RouteEnd end_of(MemoryKind kind, bool is_remote) noexcept;

enum class Mover : std::uint8_t {
  none,
  memory,  ///< this process copies
  engine,  ///< a stream of the device, by its copy engines
  kernel,  ///< the same, by its cores
  read,    ///< an agent's transfer into local memory
  write,   ///< an agent's transfer out of local memory
};
std::string_view name_of(Mover mover) noexcept;

struct Route {
  RouteEnd source = RouteEnd::host;
  RouteEnd target = RouteEnd::host;
  Mover first = Mover::none;
  Mover second = Mover::none;  ///< none: one hop
  std::string_view reason;

  bool has_two_hops() const noexcept { return second != Mover::none; }
  friend bool operator==(const Route&, const Route&) = default;
};

/// What was proven of the machine, and what the plan asks for.
struct RouteFacts {
  bool storage_reaches_device = false;  ///< an agent's backend moves between the two
  bool remote_reaches_device = false;
  bool devices_reach_each_other = true;
  bool is_same_device = true;
  bool reorders_short_pieces = false;
  bool has_short_pieces = false;  ///< in whatever order
  bool kernel_reaches_both = false;
  bool kernel_reaches_bounce = false;  ///< from the device that is one end
};

/// Every pair has a route.
Route choose(RouteEnd source, RouteEnd target, const RouteFacts& facts) noexcept;

/// "device to storage: engine, then write: no direct way between ... was proven".
std::string to_string(const Route& route);

}  // namespace towpath::blockcopy
