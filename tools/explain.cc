// `towpath explain`: which ways bytes could go between two agents or two kinds of memory, which one
// is taken and why, which are refused and why, and what each was said to cost against what it does
// cost, measured here. It knows no backend by name.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <towpath/core/format.h>
#include <towpath/sys/random.h>

#include "tools/bench/own_memory.h"
#include "tools/bench/partner.h"
#include "tools/bench/runner.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/units.h"

namespace towpath::tools {
namespace {

using agent::Candidate;
using agent::Explanation;
using bench::Options;

constexpr const char* kFooter =
    R"(Two agents are made, each with every backend that opens, and asked. Each path that is possible is
then measured, and every byte verified. Marks: * taken, + possible, - refused.

Exit status: 0 there is a path; 1 there is none, or a path brought wrong bytes; 2 usage; 3 it could
not be found out.

Examples:
  towpath explain                                 between two processes of this host
  towpath explain --one_process --size 64K --count 1024
  towpath explain --remote disk --filepath /mnt/nvme0 --op_type WRITE
  towpath explain --remote object --count 8       a store: AWS_ENDPOINT_URL and so on
  towpath explain --remote block --drive /dev/ng0n1 --overwrite_drive
  towpath explain --local device                  from and to a GPU's memory
  towpath explain --connect prefill-0:7000 --token_file secret
                                                  the other one is on prefill-0, where this runs:
                                                  towpath bench --listen 0.0.0.0:7000
                                                  --token_file secret --backend all)";

struct Arguments {
  Options options;
  std::string local = "system";
  std::string remote = "system";
  std::string size = "64K";
  std::uint64_t count = 64;
  bool measure = true;
  double timeout_s = 30;
};

/// A candidate, and what was measured of it.
struct Path {
  Candidate candidate;
  std::optional<bench::Row> row;
  Status failure;  ///< why it could not be measured
};

struct Reported {
  std::string what;
  std::string partner;
  bool storage_here = false;  ///< which no backend takes there
  std::vector<Path> paths;
};

// ---- finding out ----

StridedDescriptor extents_of(const Options& options, const bench::Shape& shape) {
  return {.length = shape.block_bytes, .stride = stride_of(options, shape), .count = shape.batch};
}

bench::Room room_of(const Options& options, const bench::Shape& shape) {
  return {.bytes = area_of(options, shape), .blocks = shape.batch};
}

/// The blocks of this side, and what holds them.
struct Here {
  DescriptorList blocks;
  memory::Registration memory;
  std::unique_ptr<bench::Remote> storage = nullptr;  ///< in place of memory
};

/// Storage on this side: opened as that of the other side is, and never measured.
Result<Here> open_storage_here(Options options, const bench::Runner::Parts& parts,
                               const bench::Shape& shape) {
  options.remote = options.local;
  options.scope += "-here";
  TOWPATH_TRY(auto storage,
              bench::open_remote(options, parts.node, nullptr, room_of(options, shape)));
  Here here{.blocks = DescriptorList(options.local), .memory = {}, .storage = std::move(storage)};
  TOWPATH_TRY(here.storage->add(here.blocks, extents_of(options, shape)));
  return here;
}

Result<Here> open_here(const Options& options, const bench::Runner::Parts& parts,
                       const bench::Shape& shape) {
  if (bench::is_storage(options.local)) return open_storage_here(options, parts, shape);
  TOWPATH_TRY(const bench::OwnMemory near,
              bench::OwnMemory::make(options.local, parts.machine, area_of(options, shape)));
  const RegionDescriptor all = near.begin();
  TOWPATH_TRY(auto memory, parts.node.agent().register_region(near.region()));
  Here here{.blocks = DescriptorList(all.kind), .memory = std::move(memory)};
  TOWPATH_TRY(bench::add_from({all.address, all.length, all.device_id}, here.blocks,
                              extents_of(options, shape)));
  return here;
}

Result<Explanation> ask(const Options& options, const bench::Runner::Parts& parts,
                        const bench::Shape& shape) {
  agent::Agent& agent = parts.node.agent();
  const bench::Remote& remote = parts.remote;
  TOWPATH_TRY(const Here here, open_here(options, parts, shape));
  DescriptorList there(remote.kind());
  TOWPATH_TRY(remote.add(there, extents_of(options, shape)));
  TOWPATH_TRY(const agent::PreparedList local, agent.prepare(here.blocks));
  TOWPATH_TRY(const agent::PreparedList far, agent.prepare_remote(remote.peer(), there));
  return agent.explain(options.op, local, far);
}

Result<bench::Row> measure(Options options, const std::string& backend,
                           const bench::Runner::Parts& parts, const bench::Shape& shape) {
  options.backend = backend;
  TOWPATH_TRY(const auto runner, bench::Runner::open(options, parts, area_of(options, shape)));
  return runner->measure(shape);
}

Result<Reported> find_out(const Arguments& arguments, const bench::Shape& shape) {
  const Options& options = arguments.options;
  std::vector<bench::RefusedBackend> refused;
  const bench::Machine machine(options);
  TOWPATH_TRY(const auto node,
              bench::open_node(bench::kInitiator, options,
                               {.registry = &machine.registry, .refused = &refused}));
  TOWPATH_TRY(const auto partner, bench::OpenPartner::open(options, machine, *node));
  TOWPATH_TRY(const auto remote,
              bench::open_remote(options, *node, partner->meeting(), room_of(options, shape)));
  const bench::Runner::Parts parts{machine, *node, *remote};
  TOWPATH_TRY(Explanation explanation, ask(options, parts, shape));
  Reported reported{.what = std::move(explanation.what),
                    .partner = partner->what(),
                    .storage_here = bench::is_storage(options.local)};
  for (Candidate& candidate : explanation.candidates) {
    Path path{.candidate = std::move(candidate)};
    if (path.candidate.possible && arguments.measure) {
      auto row = measure(options, path.candidate.backend, parts, shape);
      if (row.ok())
        path.row = *std::move(row);
      else
        path.failure = row.status();
    }
    reported.paths.push_back(std::move(path));
  }
  // What was measured decides where device memory is involved.
  TOWPATH_TRY(Explanation after, ask(options, parts, shape));
  for (std::size_t i = 0; i < after.candidates.size(); ++i)
    reported.paths[i].candidate = std::move(after.candidates[i]);
  for (const bench::RefusedBackend& other : refused)
    reported.paths.push_back(
        {{.backend = other.name, .reason = "cannot be opened: " + story_of(other.why)}});
  return reported;
}

// ---- reporting ----

Duration measured_of(const Path& path) {
  return path.row ? Duration(static_cast<std::int64_t>(path.row->latency.p50)) : Duration(0);
}

const Path* taken_of(const Reported& reported) {
  const auto found =
      std::ranges::find_if(reported.paths, [](const Path& path) { return path.candidate.chosen; });
  return found == reported.paths.end() ? nullptr : &*found;
}

const Path* fastest_of(const Reported& reported) {
  const Path* fastest = nullptr;
  for (const Path& path : reported.paths) {
    if (path.row && (fastest == nullptr || measured_of(path) < measured_of(*fastest)))
      fastest = &path;
  }
  return fastest;
}

void add_path(Table& table, const Path& path) {
  const Candidate& candidate = path.candidate;
  const Tone tone = candidate.chosen ? Tone::good : candidate.possible ? Tone::plain : Tone::faint;
  const Duration measured = measured_of(path);
  const std::string estimate =
      candidate.estimate.count() > 0
          ? cat(duration_text(candidate.estimate), candidate.measured ? " measured" : " declared")
          : std::string("-");
  std::string off = "-";
  if (path.row && candidate.estimate.count() > 0 && measured.count() > 0)
    off = fmt::format("x {:.2f}", static_cast<double>(measured.count()) /
                                      static_cast<double>(candidate.estimate.count()));
  table.add(
      {candidate.chosen     ? "*"
       : candidate.possible ? "+"
                            : "-",
       Cell(candidate.backend, tone), candidate.possible ? estimate : "",
       path.row             ? duration_text(measured)
       : candidate.possible ? "-"
                            : "",
       path.row ? duration_text(Duration(static_cast<std::int64_t>(path.row->latency.p99))) : "",
       candidate.possible ? off : "",
       path.row ? rate_text(path.row->shape.bytes(), measured) : ""});
  table.note(cat(candidate.chosen     ? "taken: "
                 : candidate.possible ? "possible: "
                                      : "refused: ",
                 candidate.reason));
  if (!candidate.path.empty()) table.note("path: " + candidate.path);
  if (path.row && !path.row->wrong.empty()) table.note("WRONG DATA: " + path.row->wrong);
  if (!path.failure.ok()) table.note("not measured: " + story_of(path.failure));
}

constexpr const char* kStorageIsRemote =
    R"(Storage is the remote side of a transfer, and memory of this agent the local one: ask that path
about. From there to another agent or to other storage is a transfer of its own.
)";

std::string verdict_text(const Reported& reported) {
  const Path* const taken = taken_of(reported);
  const Path* const fastest = fastest_of(reported);
  if (taken == nullptr)
    return cat("No backend can move these bytes.\n", reported.storage_here ? kStorageIsRemote : "");
  if (fastest == nullptr || fastest == taken) return "";
  return fmt::format("{} was faster here than {}, which is taken: {} against {}.\n",
                     fastest->candidate.backend, taken->candidate.backend,
                     duration_text(measured_of(*fastest)), duration_text(measured_of(*taken)));
}

std::string reported_text(const Reported& reported, Colours colours) {
  Table table({{""},
               {"backend"},
               {"estimate", Align::right},
               {"measured", Align::right},
               {"p99", Align::right},
               {"off by", Align::right},
               {"rate", Align::right}});
  for (const Path& path : reported.paths) add_path(table, path);
  return cat(reported.what, " (", reported.partner, ")\n\n", table.text(colours), "\n",
             verdict_text(reported));
}

nlohmann::ordered_json to_json(const Path& path) {
  const Candidate& candidate = path.candidate;
  nlohmann::ordered_json out{{"backend", candidate.backend},
                             {"possible", candidate.possible},
                             {"chosen", candidate.chosen},
                             {"reason", candidate.reason},
                             {"path", candidate.path},
                             {"estimate_ns", candidate.estimate.count()},
                             {"margin_ns", candidate.margin.count()},
                             {"estimate_is_measured", candidate.measured}};
  if (path.row) {
    out["measured_ns"] = {{"p50", path.row->latency.p50},
                          {"p90", path.row->latency.p90},
                          {"p99", path.row->latency.p99}};
    out["bytes_per_second"] = path.row->bytes_per_second();
    out["segments"] = path.row->segments;
    out["verified"] = path.row->verified && path.row->wrong.empty();
  }
  if (!path.failure.ok()) out["not_measured"] = story_of(path.failure);
  return out;
}

nlohmann::ordered_json to_json(const Reported& reported) {
  nlohmann::ordered_json out{{"what", reported.what},
                             {"partner", reported.partner},
                             {"candidates", nlohmann::ordered_json::array()}};
  for (const Path& path : reported.paths) out["candidates"].push_back(to_json(path));
  const Path* const taken = taken_of(reported);
  const Path* const fastest = fastest_of(reported);
  out["chosen"] = taken != nullptr ? nlohmann::ordered_json(taken->candidate.backend) : nullptr;
  out["fastest"] =
      fastest != nullptr ? nlohmann::ordered_json(fastest->candidate.backend) : nullptr;
  return out;
}

// ---- the command line ----

/// `value` of `flag`. Errors: invalid_argument.
Result<MemoryKind> kind_named(const char* flag, const std::string& value) {
  if (const auto kind = memory_kind_from_name(value)) return *kind;
  return error(Code::invalid_argument, cat(flag, " ", printable(value), " is no kind of memory"),
               "use system, pinned, device, disk, object or block");
}

Status take_kinds(Arguments& arguments) {
  Options& options = arguments.options;
  TOWPATH_TRY(options.local, kind_named("--local", arguments.local));
  TOWPATH_TRY(options.remote, kind_named("--remote", arguments.remote));
  TOWPATH_TRY(bench::check_other_side(options));
  TOWPATH_TRY(bench::check_places(options));
  // Only what is possible is measured, and with storage on this side nothing is.
  const bool measures = arguments.measure && !bench::is_storage(options.local);
  return measures ? bench::check_overwriting(options) : Status();
}

Result<bench::Shape> take(Arguments& arguments) {
  Options& options = arguments.options;
  TOWPATH_TRY(take_kinds(arguments));
  options.all_backends = true;
  options.timeout = Duration(static_cast<std::int64_t>(arguments.timeout_s * 1e9));
  options.scope = cat("explain-", hex(sys::random_u64()));
  options.iterations = 50;
  options.warmup = 5;
  TOWPATH_TRY(const std::uint64_t size, parse_bytes(arguments.size));
  const bench::Shape shape{size, arguments.count};
  if (size == 0 || size > options.total_buffer_size ||
      arguments.count > options.total_buffer_size ||
      area_of(options, shape) > options.total_buffer_size)
    return error(Code::invalid_argument,
                 cat(arguments.count, " blocks of ", size, " bytes are out of bounds"),
                 cat("stay within ", format_bytes(options.total_buffer_size)));
  return shape;
}

Result<Exit> explain(Arguments& arguments) {
  TOWPATH_TRY(const bench::Shape shape, take(arguments));
  const Options& options = arguments.options;
  if (options.remote == MemoryKind::disk || options.local == MemoryKind::disk)
    TOWPATH_TRY(check_directory(options.directory, "--filepath"));
  TOWPATH_TRY(const Reported reported, find_out(arguments, shape));
  if (!options.json.empty()) TOWPATH_TRY(write_json(options.json, to_json(reported)));
  if (options.json != "-") {
    TOWPATH_TRY(Output out, Output::open("-"));
    TOWPATH_TRY(out.write(reported_text(reported, out.is_terminal() ? Colours::yes : Colours::no)));
    TOWPATH_TRY(out.close());
  }
  const bool wrong = std::ranges::any_of(
      reported.paths, [](const Path& path) { return path.row && !path.row->wrong.empty(); });
  return taken_of(reported) == nullptr || wrong ? Exit::found_wrong : Exit::ok;
}

}  // namespace

void add_explain(Command& towpath) {
  Command command =
      towpath.add("explain", "Report which path bytes would take, why, and what it costs");
  const auto arguments = std::make_shared<Arguments>();
  Options& options = arguments->options;
  options.op = TransferOp::read;
  command.op_type(options.op);
  command
      .option("--remote", arguments->remote,
              "Another agent's system, pinned or device; or disk, object, block")
      .shows_default();
  command.option("--local", arguments->local, "This side, of the same kinds").shows_default();
  command.option("--device", options.device, "gpu, or host: host memory that emulates a GPU")
      .shows_default()
      .one_of({"gpu", "host"});
  command.option("--size", arguments->size, "Of a block").shows_default();
  command.option("--count", arguments->count, "Blocks").shows_default().whole(1);
  command.flag("--scatter", options.scatter, "Gaps between blocks: none can be merged");
  command.flag("!--no_measure", arguments->measure, "Only ask");
  command.flag("--one_process", options.one_process, "The other agent is in this process");
  command.option("--connect", options.connect, "`towpath bench --listen` runs there")
      .takes("HOST:PORT");
  command.option("--token_file", options.token_file, "Holds the secret that both sides share")
      .takes("FILE");
  command.option("--filepath", options.directory, "Directory of the nameless file").shows_default();
  command.option("--drive", options.drive, "For block: an NVMe namespace's /dev/ngXnY");
  command.flag("--overwrite_drive", options.overwrite_drive,
               "The bytes at the drive's begin may be lost: it is measured");
  command.option("--timeout", arguments->timeout_s, "Seconds").shows_default().positive();
  command.output("--json", options.json, "The same for programs; - is standard output");
  command.footer(kFooter);
  command.when_chosen([arguments] { return explain(*arguments); });
}

}  // namespace towpath::tools
