#include <towpath/core/format.h>
#include <towpath/kv/connector/scheduler.h>
#include <towpath/sys/clock.h>

#include "bindings/c/call.h"

using namespace towpath;     // NOLINT: the words of this file
using namespace towpath::c;  // NOLINT

struct towpath_scheduler {
  kv::ConnectorScheduler value;
  Taken<kv::StepOrders> orders = {};
  Taken<std::vector<kv::ConnectorScheduler::AnsweredHint>> hints = {};
  Taken<std::vector<kv::HeldBlockEvent>> events = {};
};

namespace {

Result<std::uint8_t> priority_of(std::uint32_t reported) {
  if (reported == 0) return kv::kUsualPriority;
  if (reported <= UINT8_MAX) return static_cast<std::uint8_t>(reported);
  return error(Code::invalid_argument, cat("a priority of ", reported),
               "use 1 to 255, or 0 for the usual one");
}

/// One piece of memory, which the caller gives back: the events, their tokens, their rooms.
towpath_block_event_t* give_events(const std::vector<kv::HeldBlockEvent>& events) {
  const std::size_t heads = std::max<std::size_t>(events.size(), 1) * sizeof(towpath_block_event_t);
  std::size_t tokens = 0, letters = 0;
  for (const kv::HeldBlockEvent& event : events) {
    tokens += event.tokens.size() * sizeof(kv::TokenId);
    letters += event.room.size() + 1;
  }
  auto* const whole = static_cast<char*>(std::malloc(heads + tokens + letters));
  if (whole == nullptr) throw std::bad_alloc();
  auto* const list = reinterpret_cast<towpath_block_event_t*>(whole);
  auto* token = reinterpret_cast<kv::TokenId*>(whole + heads);
  char* letter = whole + heads + tokens;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const kv::HeldBlockEvent& event = events[i];
    list[i] = {.hash = event.hash,
               .is_stored = event.kind == kv::BlockEvent::Kind::stored ? 1U : 0U,
               .has_parent = event.parent ? 1U : 0U,
               .parent = event.parent.value_or(0),
               .tokens = token,
               .token_count = event.tokens.size(),
               .room = letter};
    token = std::ranges::copy(event.tokens, token).out;
    std::memcpy(letter, event.room.c_str(), event.room.size() + 1);
    letter += event.room.size() + 1;
  }
  return list;
}

/// What is too long for a Duration is too long for a hint, too.
Duration hint_time(std::uint64_t ms) {
  constexpr auto kTooLong = static_cast<std::uint64_t>(
      2 * std::chrono::duration_cast<std::chrono::milliseconds>(kv::kLongestHint).count());
  return std::chrono::milliseconds(std::min(ms, kTooLong));
}

using AnsweredHints = std::vector<kv::ConnectorScheduler::AnsweredHint>;

/// One piece of memory, which the caller gives back: the answers, and their words.
towpath_answered_hint_t* give_answers(const AnsweredHints& answers) {
  const std::size_t heads =
      std::max<std::size_t>(answers.size(), 1) * sizeof(towpath_answered_hint_t);
  std::size_t letters = 0;
  for (const auto& one : answers) letters += one.id.size() + one.answer.why.size() + 2;
  auto* const whole = static_cast<char*>(std::malloc(heads + letters));
  if (whole == nullptr) throw std::bad_alloc();
  auto* const list = reinterpret_cast<towpath_answered_hint_t*>(whole);
  char* letter = whole + heads;
  const auto give = [&](const std::string& text) {
    std::memcpy(letter, text.c_str(), text.size() + 1);
    return std::exchange(letter, letter + text.size() + 1);
  };
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& [id, action, answer] = answers[i];
    list[i] = {.id = give(id),
               .action = name_of(action).data(),
               .outcome = name_of(answer.outcome).data(),
               .blocks = answer.blocks,
               .left = answer.left,
               .why = give(answer.why)};
  }
  return list;
}

}  // namespace

towpath_code_t towpath_scheduler_open(const towpath_scheduler_options_t* options,
                                      towpath_scheduler_t** scheduler, towpath_error_t* error) {
  return call(error, given(options, scheduler), [&]() -> Status {
    TOWPATH_TRY(const auto reported, sized(options));
    kv::ConnectorSchedulerOptions wanted{.salt = reported.salt,
                                         .name_space = text_or_none(reported.name_space),
                                         .saves_in_background = reported.saves_in_background != 0,
                                         .events_with_tokens = reported.events_with_tokens != 0,
                                         .clock = &sys::system_clock()};
    if (reported.tokens_per_block != 0) wanted.tokens_per_block = reported.tokens_per_block;
    if (reported.workers != 0) wanted.workers = reported.workers;
    if (reported.background_from_tokens != 0)
      wanted.background_from_tokens = reported.background_from_tokens;
    TOWPATH_TRY(kv::ConnectorScheduler made, kv::ConnectorScheduler::make(std::move(wanted)));
    *scheduler = new towpath_scheduler{std::move(made)};
    return {};
  });
}

void towpath_scheduler_close(towpath_scheduler_t* scheduler) { delete scheduler; }

towpath_code_t towpath_scheduler_match(towpath_scheduler_t* scheduler, const char* request,
                                       const towpath_prompt_t* prompt, uint64_t* tokens,
                                       int* in_background, towpath_error_t* error) {
  return call(error, given(scheduler, request, prompt, tokens, in_background), [&]() -> Status {
    TOWPATH_TRY(const auto reported, sized(prompt));
    if (!given_array(reported.tokens, reported.token_count))
      return towpath::error(Code::invalid_argument, "a prompt without tokens", "point to them");
    const std::string room = text_or_none(reported.room);
    TOWPATH_TRY(const auto match,
                scheduler->value.match({.request = request,
                                        .tokens = {reported.tokens, reported.token_count},
                                        .computed = reported.computed,
                                        .room = room,
                                        .tenant = kv::tenant_of(text_or_none(reported.tenant))}));
    *tokens = match.tokens;
    *in_background = match.in_background ? 1 : 0;
    return {};
  });
}

towpath_code_t towpath_scheduler_allocate(towpath_scheduler_t* scheduler, const char* request,
                                          const uint64_t* blocks, size_t block_count,
                                          uint64_t loaded_tokens, towpath_error_t* error) {
  return call(error, given(scheduler, request) && given_array(blocks, block_count), [&] {
    return scheduler->value.allocate(request, std::span(blocks, block_count), loaded_tokens);
  });
}

towpath_code_t towpath_scheduler_advance(towpath_scheduler_t* scheduler, const char* request,
                                         const towpath_progress_t* progress,
                                         towpath_error_t* error) {
  return call(error, given(scheduler, request, progress), [&]() -> Status {
    TOWPATH_TRY(const auto reported, sized(progress));
    if (!given_array(reported.new_tokens, reported.new_token_count) ||
        !given_array(reported.new_blocks, reported.new_block_count))
      return towpath::error(Code::invalid_argument, "progress without its arrays", "point to them");
    TOWPATH_TRY(const std::uint8_t priority, priority_of(reported.priority));
    return scheduler->value.advance(
        request, {.computed_before = reported.computed_before,
                  .computed_after = reported.computed_after,
                  .new_tokens = {reported.new_tokens, reported.new_token_count},
                  .new_blocks = std::span(reported.new_blocks, reported.new_block_count),
                  .priority = priority});
  });
}

towpath_code_t towpath_scheduler_preempt(towpath_scheduler_t* scheduler, const char* request,
                                         towpath_error_t* error) {
  return call(error, given(scheduler, request), [&] { return scheduler->value.preempt(request); });
}

towpath_code_t towpath_scheduler_finish(towpath_scheduler_t* scheduler, const char* request,
                                        int* blocks_stay, towpath_error_t* error) {
  return call(error, given(scheduler, request, blocks_stay), [&]() -> Status {
    TOWPATH_TRY(const auto finish, scheduler->value.finish(request));
    *blocks_stay = finish.blocks_stay ? 1 : 0;
    return {};
  });
}

towpath_code_t towpath_scheduler_hint(towpath_scheduler_t* scheduler, const char* request,
                                      const towpath_hint_t* hint, towpath_error_t* error) {
  return call(error, given(scheduler, request, hint), [&]() -> Status {
    TOWPATH_TRY(const auto reported, sized(hint));
    TOWPATH_TRY(const kv::HintAction action, kv::hint_action_named(text_or_none(reported.action)));
    return scheduler->value.hint(
        request, {.id = text_or_none(reported.id),
                  .action = action,
                  .first_token = reported.first_token,
                  .end_token = reported.end_token == 0 ? UINT64_MAX : reported.end_token,
                  .after = hint_time(reported.after_ms),
                  .keep = hint_time(reported.keep_ms),
                  .session = text_or_none(reported.session)});
  });
}

towpath_code_t towpath_scheduler_take_answered_hints(towpath_scheduler_t* scheduler,
                                                     towpath_answered_hint_t** hints,
                                                     size_t* hint_count, towpath_error_t* error) {
  return call(error, given(scheduler, hints, hint_count), [&] {
    return scheduler->hints.pass_on([&] { return scheduler->value.take_answered_hints(); },
                                    [&](const AnsweredHints& answers) -> Status {
                                      *hints = give_answers(answers);
                                      *hint_count = answers.size();
                                      return {};
                                    });
  });
}

towpath_code_t towpath_scheduler_step_begins(towpath_scheduler_t* scheduler, uint64_t tokens,
                                             towpath_error_t* error) {
  return call(error, given(scheduler), [&]() -> Status {
    scheduler->value.step_begins(tokens);
    return {};
  });
}

towpath_code_t towpath_scheduler_step_ends(towpath_scheduler_t* scheduler, towpath_error_t* error) {
  return call(error, given(scheduler), [&]() -> Status {
    scheduler->value.step_ends();
    return {};
  });
}

towpath_code_t towpath_scheduler_build(towpath_scheduler_t* scheduler, void** orders,
                                       size_t* orders_size, towpath_error_t* error) {
  return call(error, given(scheduler, orders, orders_size), [&] {
    return scheduler->orders.pass_on([&] { return scheduler->value.build(); },
                                     [&](const kv::StepOrders& built) -> Status {
                                       TOWPATH_TRY(const Bytes bytes, kv::encode(built));
                                       *orders = give_array(ConstByteSpan(bytes));
                                       *orders_size = bytes.size();
                                       return {};
                                     });
  });
}

towpath_code_t towpath_scheduler_update(towpath_scheduler_t* scheduler, const void* report,
                                        size_t report_size, towpath_error_t* error) {
  return call(error, given(scheduler, report), [&]() -> Status {
    const ConstByteSpan bytes(static_cast<const std::byte*>(report), report_size);
    TOWPATH_TRY(const kv::WorkerReport said, kv::decode_worker_report(bytes));
    return scheduler->value.update(said);
  });
}

towpath_code_t towpath_scheduler_take_events(towpath_scheduler_t* scheduler,
                                             towpath_block_event_t** events, size_t* event_count,
                                             towpath_error_t* error) {
  return call(error, given(scheduler, events, event_count), [&] {
    return scheduler->events.pass_on([&] { return scheduler->value.take_events(); },
                                     [&](const std::vector<kv::HeldBlockEvent>& taken) -> Status {
                                       *events = give_events(taken);
                                       *event_count = taken.size();
                                       return {};
                                     });
  });
}
