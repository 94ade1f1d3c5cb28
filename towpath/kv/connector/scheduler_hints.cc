// What a ConnectorScheduler does with hints.
#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/connector/scheduler_core.h>

namespace towpath::kv {

Status ConnectorScheduler::Core::hint(const RequestId& id, const Hint& hint) {
  TOWPATH_TRY(Request * request, find(id));
  const std::uint64_t per_block = options_.tokens_per_block;
  const std::uint64_t first = hint.first_token / per_block + (hint.first_token % per_block != 0);
  const std::uint64_t end =
      std::min<std::uint64_t>(hint.end_token / per_block, request->hashes.size());
  const auto is_bad = [](Duration time) { return time < Duration::zero() || time > kLongestHint; };
  if (is_bad(hint.after) || is_bad(hint.keep) || first >= end)
    return error(Code::invalid_argument,
                 cat("a hint '", printable(hint.id), "' of tokens ", hint.first_token, " to ",
                     std::min<std::uint64_t>(hint.end_token, request->tokens.size()), " of ",
                     request->tokens.size(), ", after ", hint.after.count(), " ns for ",
                     hint.keep.count(), " ns"),
                 cat("name whole blocks of ", per_block, " tokens, and times up to a day"));
  HintOrder order{.number = next_hint_++,
                  .action = hint.action,
                  .after = hint.after,
                  .keep = hint.keep,
                  .blocks = {},
                  .session = session_of(hint.session)};
  for (std::uint64_t i = first; i < end; ++i)
    for (std::size_t group = 0; group < options_.groups.size(); ++group)
      order.blocks.push_back(name_in(group, request->hashes[i]));
  asked_hints_[order.number].least = {.id = hint.id, .action = hint.action, .answer = {}};
  next_.hints.push_back(std::move(order));
  return {};
}

void ConnectorScheduler::Core::note_hint(const HintAnswer& answer) {
  const auto known = asked_hints_.find(answer.number);
  if (known == asked_hints_.end()) return;  // asked in an earlier life
  AskedHint& asked = known->second;
  HintAnswer& least = asked.least.answer;
  if (asked.answers == 0) least = answer;
  if (answer.outcome > least.outcome) {
    least.outcome = answer.outcome;
    least.why = answer.why;
  }
  least.blocks = std::min(least.blocks, answer.blocks);
  least.left = std::max(least.left, answer.left);
  if (++asked.answers < options_.workers) return;
  answered_hints_.push_back(std::move(asked.least));
  asked_hints_.erase(known);
}

/// A worker that begins anew knows of none that it was sent.
void ConnectorScheduler::Core::forget_hints() {
  const std::uint64_t unsent = next_hint_ - next_.hints.size();
  while (!asked_hints_.empty() && asked_hints_.begin()->first < unsent) {
    auto& [number, asked] = *asked_hints_.begin();
    asked.least.answer = {
        .number = number, .outcome = HintOutcome::rejected, .why = "a worker began anew"};
    answered_hints_.push_back(std::move(asked.least));
    asked_hints_.erase(asked_hints_.begin());
  }
}

}  // namespace towpath::kv
