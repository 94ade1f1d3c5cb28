// Who an agent is: a name that its user chose, and an incarnation that no two lives share.
// Thread: immutable.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include <towpath/core/format.h>

namespace towpath {

struct AgentIdentity {
  std::string name;               ///< any bytes, 1 to kMaxAgentName of them
  std::uint64_t incarnation = 0;  ///< random and never 0; a restarted agent has another one

  friend auto operator<=>(const AgentIdentity&, const AgentIdentity&) = default;
};

inline constexpr std::size_t kMaxAgentName = 16 * 1024;

/// "decode-0 (incarnation 0x5f3a)".
inline std::string to_string(const AgentIdentity& agent) {
  return cat(printable(agent.name), " (incarnation ", hex(agent.incarnation), ")");
}

}  // namespace towpath
