// Unproven: a connection that somebody opened and that has proven nothing so far; and which of them
// goes for a newer one where there are too many.
//
// Where a source has its share, one of its own goes for its newest, and no other source's: one that
// has said nothing, and of those the longest silent; and not before an honest one has sent what it
// has to send. Where all sources together have too many, the host that has most gives one up, at
// once if it is for a source that has none. So nobody puts out the newcomer of a host that has few,
// and a few hosts keep nobody else out. None goes whose words have arrived.
//
// This decides, and asks sockets whether something lies in them; the owner of the connections
// counts them, keeps time and hangs up.
// Thread: any.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/net/endpoint.h>

namespace towpath::net {

/// An address of IPv4, or 56 bits of one of IPv6: a host may have all addresses that begin so.
using Source = std::array<std::byte, 16>;
Source source_of(const Endpoint& peer) noexcept;
/// What the sources of one host have in common: any process has all of 127.0.0.0/8.
Source host_of(const Source& source) noexcept;

/// Whether something lies in the socket that we have not come to read.
bool has_input(int socket) noexcept;

struct Unproven {
  std::uint64_t id = 0;  ///< its owner's name for it
  int socket = -1;
  Source source{};
  bool has_spoken = false;
  Instant silent_since;      ///< since our last answer
  Duration silent_at_least;  ///< before it goes for another, unless that one may have it at once
};

struct Crowd {
  std::span<const Unproven> unproven;
  std::size_t most_per_source = 0;  ///< at least 1
  bool is_full = false;             ///< nothing is free, whatever a source has
  Instant now;
};

/// Which of them goes for a newcomer of `source` (nothing: no one knows where it comes from). None:
/// there is room. Errors: exhausted (none goes, so the newcomer is refused).
Result<std::optional<std::uint64_t>> displaced_by(const std::optional<Source>& source,
                                                  const Crowd& crowd);

}  // namespace towpath::net
