// What the workers of a replay came to, reported to the first decode worker and put
// together there.
#include <algorithm>

#include <towpath/core/format.h>

#include "tools/replay/decode_worker.h"

namespace towpath::tools::replay {
namespace {

// In the summary of a decode worker: what this prefill reported to it.
std::string mistakes_of(const std::string& prefill) { return cat(kMistakes, " of ", prefill); }

}  // namespace

Status DecodeWorker::finish() {
  TOWPATH_TRY(dismiss_prefills());
  outcome_.pull = pulled_;
  const std::vector<std::string> decodes = decode_names(options_);
  if (options_.worker > 0) {
    excuse_all(node_->agent());
    TOWPATH_TRY(send(node_->agent(), decodes.front(), summary()));
    Status gone;
    do {  // the first may have requests that are due later
      gone = meeting_->stay_until_gone(decodes.front(), options_.timeout);
    } while (gone.code() == Code::timed_out);
    return gone;
  }
  std::vector<std::string> others = living();
  others.insert(others.end(), decodes.begin() + 1, decodes.end());
  while (!others.empty()) {
    TOWPATH_TRY(const std::optional<Meeting::Said> said, hear_summary(others));
    if (!said) continue;
    std::erase(others, said->who);
    if (Prefill* const prefill = prefill_named(said->who)) {
      prefill->summed_up = true;
      take_summary(said->message);
    } else {
      take_decode_summary(said->message);
    }
  }
  excuse_all(node_->agent());
  check_against_kernel();
  bury_the_dead();
  settle(outcome_.injected, outcome_.faults);
  if (options_.inject != Mistake::none && outcome_.faults.none()) {
    outcome_.faults.add(
        cat("inject: ", name_of(options_.inject), " was asked for, and ",
            outcome_.mistake_made ? "nothing noticed it" : "there was no occasion for it"));
  }
  return {};
}

// A prefill may die even now, when another lives.
Status DecodeWorker::dismiss_prefills() {
  for (const std::string& name : living()) {
    const Status reported = send(node_->agent(), name, {.kind = MessageKind::finish});
    if (!reported.ok() && reported.code() != Code::peer_lost) return reported;
  }
  return lose_the_dead();
}

// Others may still be at work: as long as they live they are waited for. Nothing: it is to be
// called again, for one of them may have died.
Result<std::optional<Meeting::Said>> DecodeWorker::hear_summary(std::vector<std::string>& from) {
  if (!early_.empty()) {
    Meeting::Said said = std::move(early_.back());
    early_.pop_back();
    return std::optional(std::move(said));
  }
  auto said = meeting_->next_message(from, options_.timeout);
  if (said.code() == Code::timed_out && options_.decodes > 1) return std::optional<Meeting::Said>();
  if (said.code() == Code::peer_lost) {
    TOWPATH_TRY(lose_the_dead());
    const auto is_lost = [&](const std::string& name) {
      const Prefill* const prefill = prefill_named(name);
      return prefill != nullptr && prefill->lost;
    };
    if (std::erase_if(from, is_lost) > 0) return std::optional<Meeting::Said>();
  }
  if (!said.ok()) return said.status();
  if (said->message.kind == MessageKind::summary) return std::optional(*std::move(said));
  return error(Code::internal, cat(said->who, " sent no summary"));
}

Message DecodeWorker::summary() const {
  Message message{.kind = MessageKind::summary};
  message.figures = {{"requests", outcome_.requests},   {"blocks", outcome_.blocks},
                     {"verified", outcome_.verified},   {"mismatches", outcome_.mismatches},
                     {"verify_ns", outcome_.verify_ns}, {"asked_again", outcome_.asked_again}};
  outcome_.pull.put(message, "pull");
  put(message, outcome_.faults);
  for (const Prefill& prefill : prefills_) prefill.reported.put(message, mistakes_of(prefill.name));
  return message;
}

void DecodeWorker::take_decode_summary(const Message& summary) {
  const auto figure = [&](const std::string& name) { return figure_of(summary, name); };
  outcome_.requests += figure("requests");
  outcome_.blocks += figure("blocks");
  outcome_.verified += figure("verified");
  outcome_.mismatches += figure("mismatches");
  outcome_.verify_ns += figure("verify_ns");
  outcome_.asked_again += figure("asked_again");
  outcome_.pull.add(Hop::from(summary, "pull"));
  take_faults(summary, outcome_.faults);
  for (Prefill& prefill : prefills_)
    prefill.reported.hear(Account::from(summary, mistakes_of(prefill.name)));
}

// What they had reported until they died.
void DecodeWorker::bury_the_dead() {
  for (Prefill& prefill : prefills_) {
    if (prefill.summed_up) continue;
    prefill.reported.bury(prefill.name, outcome_.faults);
    outcome_.injected.add(prefill.reported);
  }
}

void DecodeWorker::take_summary(const Message& summary) {
  const auto figure = [&](const std::string& name) { return figure_of(summary, name); };
  for (const HopName& one : kHops)
    if (one.hop != &ReplayOutcome::pull) (outcome_.*one.hop).add(Hop::from(summary, one.name));
  const History history = History::from(summary);
  if (outcome_.history.held(Place::host).empty()) {
    outcome_.history = history;
  } else {
    outcome_.history.add_found(history);
  }
  add_found(summary, outcome_.found);
  outcome_.bad_loads += figure("bad_loads");
  outcome_.failed_leases += figure("failed_leases");
  outcome_.kernel_read += figure("kernel.read_bytes");
  outcome_.kernel_written += figure("kernel.written_bytes");
  outcome_.direct = figure("direct") != 0;
  outcome_.mistake_made = outcome_.mistake_made || figure("mistake_made") != 0;
  if (outcome_.direct_refusal.empty()) outcome_.direct_refusal = text_of(summary, "direct_refusal");
  take_faults(summary, outcome_.faults);
  outcome_.injected.add(Account::from(summary, kMistakes));
}

// Past the page cache the kernel counts every byte that the backend says it
// moved, and no fewer.
void DecodeWorker::check_against_kernel() {
  const bool has_torn =
      options_.inject == Mistake::torn_write || outcome_.injected.of(Mistake::torn_write).made > 0;
  if (!outcome_.direct || has_torn) return;
  const auto check = [&](const char* what, std::uint64_t ours, std::uint64_t kernels) {
    if (kernels >= ours) return;
    outcome_.faults.add(cat("kernel-count: the backend counts ", ours, " bytes ", what,
                            ", the kernel only ", kernels));
  };
  check("read from disk", outcome_.load.bytes(), outcome_.kernel_read);
  check("written to disk", outcome_.spill.bytes(), outcome_.kernel_written);
}

}  // namespace towpath::tools::replay
