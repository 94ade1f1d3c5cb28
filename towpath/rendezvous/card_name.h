// CardName: under which a card is known: its agent and, for a partial card, a label.
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

struct CardName {
  std::string agent;  ///< any bytes, 1 to kMaxAgentName of them
  std::string label;  ///< any bytes, up to kMaxLabel; none: the agent's full card

  CardName() = default;
  template <std::convertible_to<std::string_view> Text>
  CardName(const Text& agent_name, std::string_view card_label = {})  // NOLINT: "a" is a name
      : agent(std::string_view(agent_name)), label(card_label) {}

  friend auto operator<=>(const CardName&, const CardName&) = default;
};

/// "'decode-0'", "'decode-0', part 'layers'".
std::string to_string(const CardName& name);

/// Whether withdrawing `name` withdraws `card`: without a label it means all cards of the agent.
inline bool covers(const CardName& name, const CardName& card) noexcept {
  return name.agent == card.agent && (name.label.empty() || name.label == card.label);
}

/// Errors: invalid_argument (an empty or too long name, a too long label).
Status check_name(const CardName& name);

}  // namespace towpath::rendezvous
