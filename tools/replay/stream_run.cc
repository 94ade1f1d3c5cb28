#include "tools/replay/stream_run.h"

#include <optional>
#include <utility>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <towpath/core/format.h>

#include "tools/child.h"
#include "tools/output.h"
#include "tools/replay/stream_owner.h"
#include "tools/replay/stream_player.h"
#include "tools/replay/stream_report.h"

namespace towpath::tools::replay {
namespace {

Status check_fits_stream(const Arguments& arguments) {
  const Options& options = arguments.options;
  const Arguments usual;
  const std::pair<bool, const char*> unfit[] = {
      {options.prefills > 1 || options.decodes > 1, "--prefill or --decode"},
      {options.inject != Mistake::none || options.faults > 0, "--inject or --faults"},
      {!options.report.empty(), "--report"},
      {arguments.policy != usual.policy, "--policy"},
      {options.capacities != usual.options.capacities, "--capacities"},
      {!arguments.format.empty(), "--format"},
      {options.model != usual.options.model, "--model"},
      {!arguments.tiers.empty(), "--tiers"},
      {arguments.tokens_per_block != 0, "--tokens-per-block"}};
  for (const auto& [given, what] : unfit)
    if (given)
      return error(Code::invalid_argument,
                   cat("a recording of transfers has no requests and no blocks: ", what,
                       " makes no sense for it"),
                   "leave it out, or replay a trace of requests");
  return {};
}

Result<Child> start_owner(const Options& options) {
  const auto timeout = std::chrono::duration<double>(options.timeout).count();
  return Child::start(
      "owner", {"towpath", "replay", "--role", "prefill", "--trace", options.trace, "--limit",
                cat(options.limit), "--rendezvous", options.rendezvous, "--run", options.run,
                "--backend", options.backend, "--timeout", cat(timeout)});
}

Result<StreamOutcome> play(const Options& options, const Stream& stream, bool alone) {
  TOWPATH_TRY(auto player, StreamPlayer::open(options, stream));
  std::optional<Child> owner;
  if (!alone) {
    TOWPATH_TRY(Child started, start_owner(options));
    owner.emplace(std::move(started));
  }
  auto outcome = player->run([&]() -> Status { return owner ? owner->lives() : Status(); });
  player.reset();  // for which the owner stays
  if (owner && outcome.ok()) (void)owner->ends_within(kFarewell);
  return outcome;
}

}  // namespace

Result<Exit> run_stream(const Arguments& arguments) {
  const Options& options = arguments.options;
  const std::string& role = arguments.role;
  TOWPATH_TRY(check_fits_stream(arguments));
  TOWPATH_TRY(const auto recorded, read_recording(options.trace, options.limit));
  TOWPATH_TRY(const Stream stream, plan_stream(recorded));
  if (role == "prefill") {
    TOWPATH_TRY(run_stream_owner(options, stream));
    return Exit::ok;
  }
  TOWPATH_TRY(const StreamOutcome outcome, play(options, stream, role == "decode"));
  if (options.json != "-")
    TOWPATH_TRY(print(stream_text(options, stream, outcome,
                                  isatty(STDOUT_FILENO) != 0 ? Colours::yes : Colours::no)));
  if (!options.json.empty())
    TOWPATH_TRY(write_json(options.json, stream_json(options, stream, outcome)));
  return outcome.faults.none() ? Exit::ok : Exit::found_wrong;
}

}  // namespace towpath::tools::replay
