// `towpath replay`: replays a KV-cache trace through two processes, or more. This one is the first
// decode worker and makes the report; it starts the others, which are this program again with
// --role and --worker.
#include <bit>
#include <cstdio>
#include <optional>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/random.h>
#include <towpath/sys/system_file.h>
#include <towpath/sys/temporary_directory.h>

#include "tools/command.h"
#include "tools/output.h"
#include "tools/recording.h"
#include "tools/replay/arguments.h"
#include "tools/replay/decode_worker.h"
#include "tools/replay/memory.h"
#include "tools/replay/others.h"
#include "tools/replay/page.h"
#include "tools/replay/policies.h"
#include "tools/replay/prefill.h"
#include "tools/replay/report.h"
#include "tools/replay/stream_run.h"
#include "tools/traces/model.h"
#include "tools/traces/trace_generator.h"
#include "tools/traces/trace_reader.h"

namespace towpath::tools {
namespace {

using replay::Arguments;
using replay::Options;

constexpr Duration kDying = std::chrono::milliseconds(200);  // its connections end before it does

constexpr const char* kFooter =
    R"(Two processes or more, each with an agent and a pool of its own. For every request prefill finds its
blocks in its host pool or on disk, or makes them; decode pulls them in one transfer,
gets a notification, and verifies every byte and the digest. Each fault is reported by its name.

Traces:   mooncake, bailian, azure, burstgpt; the last two name no blocks: nothing is shared;
          or a recording of transfers (towpath record), which is repeated as it was
Layouts:  fully_contiguous, layer_separate_block_first, layer_separate_block_second,
          block_separate
Faults:   swap-kv, swap-layer, swap-token, swap-block, flip-bit, short-file, torn-write,
          drop-notification; with --faults not short-file, but tier-fails
Policies: lru, fifo, s3-fifo, lfu, multi-lru, lineage, hit-density, adaptive; with `all` nothing is
          moved: what each would have hit is printed, beside the optimum, for each capacity
Tiers:    host=BLOCKS,disk=PATH:SIZE,object=s3://BUCKET/PREFIX:SIZE,peers; one or more below host;
          what disk and object hold stays (?endpoint_override=URL behind SIZE), peers are the other
          prefills; kvbm: as DYN_KVBM_* and KVBM's files say
Places:   scope:NAME, file:/directory, unix:/path, tcp://host:port, etcd://host:port/namespace
          (?token-file=, ?ca=&cert=&key=&password-file=)

Exit status: 0 all is right; 1 something is wrong (a block, or the trace); 2 usage; 3 the run
could not end (the other process died, nothing came in time).

Examples:
  towpath replay                                  a generated trace
  towpath replay --trace conversation.jsonl       a trace from elsewhere
  towpath replay --model qwen3-8b --scale 256     another geometry
  towpath replay --trace conversation.jsonl --policy all    which policy suits it
  towpath replay --trace conversation.jsonl --speed 100   at 100 times its pace
  towpath replay --prefill 2 --decode 3 --kill-after 100   a prefill dies: misses, no wrong byte
  towpath replay --trace stream.csv --speed 1     a recording of transfers, at its times
  towpath replay --report run.html                plots, in one file for a browser
  towpath replay --tiers host=512,disk=/var/tmp/kv:4GiB     and again: the second finds blocks there
  towpath replay --prefill 2 --tiers host=400,peers         what a peer has is not made anew
  towpath replay --requests 200 --inject swap-kv  prove that a fault is detected
  towpath replay --faults 0.01 --seed 7           random faults: each must be detected
  towpath replay --faults 0.05 --tiers host=400,disk=/var/tmp/kv:1GiB   torn files, tiers that fail
  towpath replay --rendezvous etcds://10.0.0.1:2379/demo --role prefill   here, and there
                                                  the same with --role decode)";

Result<std::unique_ptr<traces::TraceReader>> open_trace(const Options& options) {
  static sys::SystemFileSystem files;  // without state
  return traces::TraceReader::open(files, options.trace, options.format);
}

Result<std::unique_ptr<traces::RequestSource>> open_source(const Options& options) {
  if (options.trace.empty()) {
    traces::GeneratorOptions generator = options.generator;
    generator.tokens_per_block = options.tokens_per_block;
    return std::unique_ptr<traces::RequestSource>(
        std::make_unique<traces::TraceGenerator>(generator));
  }
  TOWPATH_TRY(auto reader, open_trace(options));
  return std::unique_ptr<traces::RequestSource>(std::move(reader));
}

/// The page shows the policies beside what was moved, if something was.
Status write_page(const Options& options, const replay::ReplayOutcome* outcome,
                  std::span<const traces::Comparison> comparisons) {
  if (options.report.empty()) return {};
  TOWPATH_TRY(Output out, Output::open(options.report));
  TOWPATH_TRY(out.write(replay::page_of(
      options,
      {.command = replay::command_line(), .outcome = outcome, .comparisons = comparisons})));
  return out.close();
}

Status write_page_with_policies(const Options& options, const replay::ReplayOutcome& outcome) {
  if (options.report.empty()) return {};
  TOWPATH_TRY(const auto source, open_source(options));  // once more, from its beginning
  TOWPATH_TRY(const auto comparisons, replay::compare_policies(options, *source));
  return write_page(options, &outcome, comparisons);
}

/// Where the processes of this run meet, unless the options say it.
void settle_meeting(Arguments& arguments) {
  Options& options = arguments.options;
  if (options.run.empty())
    options.run = arguments.role == "both" ? cat("replay-", hex(sys::random_u64())) : "replay";
  if (options.rendezvous.empty()) options.rendezvous = cat("scope:", options.run);
}

/// A child that a signal ended is the cause of whatever else failed: the kernel's out-of-memory
/// killer sends one.
Status with_the_dead(Status failure, std::vector<Child>& others) {
  for (Child& other : others) {
    if (!other.ends_within(kDying)) continue;
    Status ended = other.ended_by_signal();
    if (!ended.ok()) return std::move(ended).because(std::move(failure));
  }
  return failure;
}

Result<replay::ReplayOutcome> play(Arguments& arguments) {
  Options& options = arguments.options;
  const bool alone = arguments.role == "both";
  TOWPATH_TRY(replay::check_memory(options, alone ? options.prefills : 0,
                                   alone ? options.decodes : 1, replay::available_memory()));
  settle_meeting(arguments);
  TOWPATH_TRY(const auto source, open_source(options));
  TOWPATH_TRY(auto worker, replay::DecodeWorker::open(options));
  // What a prefill that dies leaves goes too.
  const auto files = sys::TemporaryDirectory::at(alone ? replay::run_folder(options) : "");
  std::vector<Child> others;
  if (alone) {
    TOWPATH_TRY(others, replay::start_others(arguments));
  }
  const Alive others_live = [&]() -> Status {
    for (Child& other : others) TOWPATH_TRY(other.lives());
    return {};
  };
  auto outcome = worker->run(*source, others_live, [&] { replay::end(others.back()); });
  if (outcome.ok()) worker.reset();  // for which the others stay
  if (!outcome.ok() && options.kill_after == 0) outcome = with_the_dead(outcome.status(), others);
  for (Child& other : others)
    if (!outcome.ok() || !other.ends_within(kFarewell)) replay::end(other);
  return outcome;
}

Result<Exit> run_decode(Arguments& arguments) {
  const Options& options = arguments.options;
  TOWPATH_TRY(const replay::ReplayOutcome outcome, play(arguments));
  if (options.worker > 0) return Exit::ok;  // the first reports it
  if (outcome.requests == 0)
    return error(Code::corrupt, cat("the trace ", printable(options.trace, 256), " has no request"),
                 "give another file, or none: then a trace is generated");
  if (options.json != "-")
    TOWPATH_TRY(print(replay::report_text(
        options, outcome, isatty(STDOUT_FILENO) != 0 ? Colours::yes : Colours::no)));
  if (!options.json.empty())
    TOWPATH_TRY(write_json(options.json, replay::report_json(options, outcome)));
  TOWPATH_TRY(write_page_with_policies(options, outcome));
  return outcome.faults.none() ? Exit::ok : Exit::found_wrong;
}

/// What the options say of the trace, and what the trace says itself.
Status settle_trace(Arguments& arguments) {
  Options& options = arguments.options;
  if (!arguments.format.empty()) {
    TOWPATH_TRY(options.format, traces::trace_format_named(arguments.format));
  }
  if (arguments.tokens_per_block != 0) {
    if (!std::has_single_bit(arguments.tokens_per_block))
      return error(Code::invalid_argument,
                   cat("--tokens-per-block ", arguments.tokens_per_block, " is no power of two"),
                   cat("use ", std::bit_floor(arguments.tokens_per_block)));
    options.tokens_per_block = arguments.tokens_per_block;
  } else if (!options.trace.empty()) {
    TOWPATH_TRY(const auto reader, open_trace(options));
    options.tokens_per_block = traces::tokens_per_block(reader->format());
  }
  return {};
}

/// Which mistakes are made on purpose, and what does not go with them.
Status settle_mistakes(Arguments& arguments) {
  Options& options = arguments.options;
  const bool injects = !arguments.inject.empty();
  if (injects) {
    TOWPATH_TRY(options.inject, replay::mistake_named(arguments.inject));
  }
  if (arguments.policy == "all" && (injects || options.faults > 0 || options.kill_after != 0))
    return error(Code::invalid_argument,
                 "with --policy all nothing is moved: --inject, --faults and --kill-after have no "
                 "effect",
                 "leave them out, or name one policy");
  if (options.kill_after != 0 && (options.prefills < 2 || arguments.role != "both"))
    return error(Code::invalid_argument, "--kill-after needs another prefill, who goes on",
                 "add --prefill 2");
  if (options.faults > 0 && injects)
    return error(Code::invalid_argument,
                 "--faults counts what it made and what was found: no other fault goes with it",
                 "leave --inject out");
  if (!arguments.tiers.empty() && injects)
    return error(Code::invalid_argument,
                 "--inject makes its fault in the disk tier of --disk-blocks",
                 "leave --tiers out, or inject random faults with --faults");
  if (options.inject == replay::Mistake::tier_fails)
    return error(Code::invalid_argument,
                 "tier-fails is injected at random, in all tiers below the host's",
                 "use --faults in place of --inject");
  return {};
}

/// What names something that there is not, whatever is replayed.
Status check_names(const Arguments& arguments) {
  const Options& options = arguments.options;
  if (options.worker != 0 && arguments.role == "both")
    return error(Code::invalid_argument, "--worker says which of several processes this is",
                 "add --role, or leave it out");
  const Status model = traces::model_named(options.model).status();
  if (!model.ok()) return wrong_value("--model", model);
  const Status backend = standard::make_registry().find(options.backend).status();
  return backend.ok() ? Status() : wrong_value("--backend", backend);
}

/// Once: the other processes read the same.
void report(const std::vector<standard::Remark>& remarks) {
  for (const standard::Remark& remark : remarks)
    std::fprintf(stderr, "towpath replay: %s %s\n", remark.variable.c_str(), remark.why.c_str());
}

Result<Exit> run_replay(Arguments& arguments) {
  Options& options = arguments.options;
  options.timeout = Duration(static_cast<std::int64_t>(arguments.timeout_s * 1e9));
  TOWPATH_TRY(check_names(arguments));
  TOWPATH_TRY(settle_mistakes(arguments));
  if (is_recording(options.trace)) {
    settle_meeting(arguments);
    return replay::run_stream(arguments);
  }
  TOWPATH_TRY(settle_trace(arguments));
  if (!arguments.tiers.empty()) {
    TOWPATH_TRY(replay::read_tiers(arguments.tiers, options));
    if (arguments.role != "prefill" && options.worker == 0) report(options.remarks);
  }
  options.all_policies = arguments.policy == "all";
  if (options.all_policies) {
    TOWPATH_TRY(const auto source, open_source(options));
    TOWPATH_TRY(const auto comparisons, replay::compare_policies(options, *source));
    TOWPATH_TRY(replay::report_policies(options, comparisons));
    TOWPATH_TRY(write_page(options, nullptr, comparisons));
    return Exit::ok;
  }
  TOWPATH_TRY(options.policy, kv::policy_named(arguments.policy));
  if (has(options, replay::Place::disk) && options.store_directory.empty())
    TOWPATH_TRY(check_directory(options.directory, "--directory"));
  if (arguments.role != "prefill") return run_decode(arguments);
  settle_meeting(arguments);
  TOWPATH_TRY(replay::run_prefill(options));
  return Exit::ok;
}

void add_what(Command& command, Arguments& arguments) {
  Options& options = arguments.options;
  command.option("--trace", options.trace, "A file; none: a trace is generated");
  command.option("--format", arguments.format, "Of the trace (below); its first line shows it");
  command.option("--requests", options.generator.requests, "How many to generate")
      .shows_default()
      .whole(1);
  command.option("--seed", options.generator.seed, "Of the generated trace, and of --faults")
      .shows_default()
      .whole();
  command.option("--limit", options.limit, "Play this many requests at most; 0: all")
      .shows_default()
      .whole();
  command.option("--speed", options.speed, "Times that of the trace; 0: as fast as it goes")
      .shows_default()
      .between(0.0, 1e9);
  command.option("--model", options.model, "Whose geometry").shows_default();
  command.option("--scale", options.scale, "Divides the bytes per token").shows_default().whole(1);
  command
      .option("--tokens-per-block", arguments.tokens_per_block,
              "A power of two [512, or as the trace has it]")
      .whole(1);
}

void add_where(Command& command, Arguments& arguments) {
  Options& options = arguments.options;
  command.option("--policy", arguments.policy, "Eviction policy of prefill's tiers (below)")
      .shows_default();
  command.option("--capacities", options.capacities, "For --policy all: blocks, with commas")
      .with_commas()
      .between(1, 100'000'000)
      .takes("N,N");
  command.option("--host-blocks", options.host_blocks, "Size of prefill's host pool")
      .shows_default()
      .whole(1);
  command.option("--disk-blocks", options.disk_blocks, "Size of its disk tier")
      .shows_default()
      .whole(1);
  command.option("--tiers", arguments.tiers, "Of prefill, instead of those two (below)");
  command.option("--decode-blocks", options.decode_blocks, "Size of decode's pool")
      .shows_default()
      .whole(1);
  command.option("--decode-layout", options.decode_layout, "Of decode's pool (below)")
      .shows_default();
  command.option("--directory", options.directory, "For the disk tier's files, which go with it")
      .shows_default();
  command.flag("!--buffered", options.direct, "Let the disk tier use the page cache");
}

void add_meeting(Command& command, Arguments& arguments) {
  Options& options = arguments.options;
  command.option("--rendezvous", options.rendezvous, "Where the two meet (below)");
  command.option("--backend", options.backend, "Over which decode pulls").shows_default();
  command.option("--role", arguments.role, "Which of the two this is; both: it starts prefill")
      .shows_default()
      .one_of({"both", "decode", "prefill"});
  command.option("--prefill", options.prefills, "Processes that make and keep blocks")
      .shows_default()
      .between(1, 16);
  command.option("--decode", options.decodes, "Processes that pull them")
      .shows_default()
      .between(1, 16);
  command.option("--worker", options.worker, "Which of them this is, with --role").between(0, 15);
  command.option("--run", options.run, "Their common name at the rendezvous, with --role");
}

void add_how(Command& command, Arguments& arguments) {
  Options& options = arguments.options;
  command.option("--in-flight", options.in_flight, "Requests that prefill works ahead")
      .shows_default()
      .whole(1);
  command.option("--timeout", arguments.timeout_s, "Seconds, for a transfer or a next word")
      .shows_default()
      .positive();
  command.option("--inject", arguments.inject, "Inject this fault (below)");
  command.option("--faults", options.faults, "Inject random faults, on this share of occasions")
      .between(0.0, 1.0);
  command
      .option("--kill-after", options.kill_after,
              "Kill the last prefill when so many requests were served here")
      .whole(1);
  command.output("--json", options.json, "Write the report here; -: standard output");
  command.output("--report", options.report, "Write a page with plots here (HTML)");
  command.flag("!--quiet", options.progress, "No live line");
}

}  // namespace

void add_replay(Command& towpath) {
  Command command = towpath.add("replay", "Replay a KV-cache trace through two processes");
  auto arguments = std::make_shared<Arguments>();
  arguments->options.progress = true;
  add_what(command, *arguments);
  add_where(command, *arguments);
  add_meeting(command, *arguments);
  add_how(command, *arguments);
  command.footer(kFooter);
  command.when_chosen([arguments] { return run_replay(*arguments); });
}

}  // namespace towpath::tools
