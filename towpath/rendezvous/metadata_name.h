// MetadataName: under which metadata is known: its agent and, for a partial metadata, a label.
// Thread: immutable.
#pragma once

#include <compare>
#include <concepts>
#include <string>
#include <string_view>

#include <towpath/core/identity.h>
#include <towpath/core/result.h>

namespace towpath::rendezvous {

inline constexpr std::size_t kMaxLabel = 256;

struct MetadataName {
  std::string agent;  ///< any bytes, 1 to kMaxAgentName of them
  std::string label;  ///< any bytes, up to kMaxLabel; none: the agent's full metadata

  MetadataName() = default;
  template <std::convertible_to<std::string_view> Text>
  MetadataName(const Text& agent_name, std::string_view card_label = {})  // NOLINT: "a" is a name
      : agent(std::string_view(agent_name)), label(card_label) {}

  friend auto operator<=>(const MetadataName&, const MetadataName&) = default;
};

/// "'decode-0'", "'decode-0', part 'layers'".
std::string to_string(const MetadataName& name);

/// Whether withdrawing `name` withdraws `metadata`: without a label it means all metadata of the
/// agent.
inline bool covers(const MetadataName& name, const MetadataName& metadata) noexcept {
  return name.agent == metadata.agent && (name.label.empty() || name.label == metadata.label);
}

/// Errors: invalid_argument (an empty or too long name, a too long label).
Status check_name(const MetadataName& name);

}  // namespace towpath::rendezvous
