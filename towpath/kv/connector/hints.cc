#include <towpath/core/format.h>
#include <towpath/kv/blocks/sequence_hash.h>
#include <towpath/kv/connector/hints.h>

namespace towpath::kv {

std::string_view name_of(HintAction action) noexcept {
  switch (action) {
    case HintAction::prefetch: return "prefetch";
    case HintAction::pin: return "pin";
    case HintAction::retain: return "retain";
    case HintAction::demote: return "demote";
    case HintAction::share: return "share";
  }
  return "unknown";
}

Result<HintAction> hint_action_named(std::string_view name) {
  for (std::uint8_t number = 1; number <= kHintActions; ++number)
    if (const auto action = static_cast<HintAction>(number); name_of(action) == name) return action;
  return error(Code::invalid_argument, cat("no hint is called '", printable(name), "'"),
               "there are prefetch, pin, retain, demote and share");
}

std::uint64_t session_of(std::string_view name) { return tenant_of(name); }

std::string_view name_of(HintOutcome outcome) noexcept {
  switch (outcome) {
    case HintOutcome::accepted: return "accepted";
    case HintOutcome::clipped: return "clipped";
    case HintOutcome::rejected: return "rejected";
  }
  return "unknown";
}

}  // namespace towpath::kv
