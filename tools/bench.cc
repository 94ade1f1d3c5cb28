// `towpath bench`: how fast bytes move between two agents, in nixlbench's words, with every byte
// examined. No service is needed: it starts the other process, or meets one that listens.
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/random.h>

#include "tools/bench/partner.h"
#include "tools/bench/report.h"
#include "tools/bench/runner.h"
#include "tools/command.h"
#include "tools/output.h"

namespace towpath::tools {
namespace {

using bench::Options;

constexpr const char* kFooter =
    R"(Without --connect the other side is a process that this one starts. Sizes take K, M, G. Flags and
the first ten columns are nixlbench's: Avg Lat is wall time over iterations and blocks, Prep makes
the transfer, Post hands it over, Tx is from there to its end. Lat is Post and Tx of each transfer.

Exit status: 0 all rows were measured and every byte is right; 1 wrong bytes; 2 usage; 3 a row
could not be measured.

Examples:
  towpath bench                                                 two processes, shm, 4 KiB to 64 MiB
  towpath bench --backend shm --op_type READ --max_batch_size 64 --scatter
  towpath bench --backend POSIX --target_seg_type FILE --filepath /mnt/nvme0
  towpath bench --initiator_seg_type VRAM --target_seg_type VRAM
  towpath bench --target_seg_type OBJ --max_block_size 8M       a store: AWS_ENDPOINT_URL and so on
  towpath bench --target_seg_type BLK --drive /dev/ng0n1 --overwrite_drive
  towpath bench --listen 0.0.0.0:7000 --token_file secret       on one host
  towpath bench --connect prefill-0:7000 --token_file secret    on the other)";

struct Arguments {
  Options options;
  std::string role = "initiator";
  std::string initiator_kind = "DRAM";
  std::string target_kind;  ///< empty: what --backend is for
  std::string start_block = "4K", max_block = "64M", total = "1G";
  double timeout_s = 30;
};

// ---- from words to options ----

std::optional<MemoryKind> kind_named(const std::string& word) {
  if (lower(word) == "dram") return MemoryKind::system;
  if (lower(word) == "file") return MemoryKind::disk;
  if (lower(word) == "vram") return MemoryKind::device;
  if (lower(word) == "obj") return MemoryKind::object;
  if (lower(word) == "blk") return MemoryKind::block;
  return memory_kind_from_name(word);
}

/// As with nixlbench: a backend of storage is measured with its storage.
MemoryKind usual_remote(const std::string& backend) {
  if (backend == "posix" || backend == "gds") return MemoryKind::disk;
  if (backend == "object") return MemoryKind::object;
  return backend == "nvme" ? MemoryKind::block : MemoryKind::system;
}

Status take_kinds(Arguments& arguments) {
  Options& options = arguments.options;
  const auto here = kind_named(arguments.initiator_kind);
  if (!here || bench::is_storage(*here))
    return error(Code::invalid_argument,
                 cat("--initiator_seg_type ", printable(arguments.initiator_kind),
                     here ? ": storage is measured on the target's side" : " is no kind of memory"),
                 cat("use DRAM, PINNED or VRAM",
                     here ? cat(", and --target_seg_type ", arguments.initiator_kind) : ""));
  options.local = *here;
  options.remote = usual_remote(options.backend);
  if (arguments.target_kind.empty()) return {};
  const auto there = kind_named(arguments.target_kind);
  if (!there)
    return error(
        Code::invalid_argument,
        cat("--target_seg_type ", printable(arguments.target_kind), " is no kind of memory"),
        "use DRAM, PINNED, VRAM, FILE, OBJ or BLK");
  options.remote = *there;
  return {};
}

Status take_sizes(Arguments& arguments) {
  Options& options = arguments.options;
  TOWPATH_TRY(options.start_block_size, parse_bytes(arguments.start_block));
  TOWPATH_TRY(options.max_block_size, parse_bytes(arguments.max_block));
  TOWPATH_TRY(options.total_buffer_size, parse_bytes(arguments.total));
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40U;  // so that no product overflows
  const auto refuse = [](const char* what) {
    return error(Code::invalid_argument, what, "see `towpath bench --help`");
  };
  if (options.start_block_size == 0 || options.start_block_size > options.max_block_size)
    return refuse("block sizes go from --start_block_size, at least 1, up to --max_block_size");
  if (options.start_batch_size > options.max_batch_size)
    return refuse("batch sizes go from --start_batch_size up to --max_batch_size");
  if (options.max_block_size > kMost || options.max_batch_size > (1U << 20U) ||
      options.pipeline_depth > 4096 || options.threads > 256 || options.iterations > kMost)
    return refuse(
        "a size, a count of blocks, of threads or of transfers in flight is out of bounds");
  return {};
}

/// For the largest row. Errors: invalid_argument.
Result<bench::Room> room_for(const Options& options) {
  bench::Room room;
  for (const bench::Shape& shape : bench::shapes_of(options)) {
    if (area_of(options, shape) / options.threads / options.pipeline_depth / shape.batch <
            shape.block_bytes ||
        area_of(options, shape) > options.total_buffer_size)
      return error(Code::invalid_argument,
                   cat(format_bytes(shape.block_bytes), " x ", shape.batch, " x ",
                       options.pipeline_depth, " in flight x ", options.threads,
                       " threads do not fit into ", format_bytes(options.total_buffer_size)),
                   "give it a larger --total_buffer_size, or measure smaller blocks");
    room.bytes = std::max(room.bytes, area_of(options, shape));
    room.blocks = std::max(room.blocks, blocks_of(options, shape));
  }
  return room;
}

const char* usual_backend(MemoryKind remote, bool far) {
  switch (remote) {
    case MemoryKind::disk: return "posix";
    case MemoryKind::object: return "object";
    case MemoryKind::block: return "nvme";
    default: return far ? "tcp" : "shm";
  }
}

/// Its own name for what the user calls otherwise; empty and `all` stay.
Status take_backend(Options& options) {
  options.all_backends = options.backend == "all";
  if (options.backend.empty() || options.all_backends) return {};
  const backend::Registry registry = standard::make_registry();
  const auto type = registry.find(options.backend);
  if (!type.ok()) return wrong_value("--backend", type.status());
  options.backend = (*type)->name;
  if (options.backend == "loopback") options.one_process = true;
  return {};
}

Status take(Arguments& arguments) {
  Options& options = arguments.options;
  options.timeout = Duration(static_cast<std::int64_t>(arguments.timeout_s * 1e9));
  TOWPATH_TRY(take_backend(options));
  TOWPATH_TRY(take_kinds(arguments));
  TOWPATH_TRY(take_sizes(arguments));
  const bool far = !options.connect.empty() || !options.listen.empty();
  TOWPATH_TRY(bench::check_other_side(options));
  TOWPATH_TRY(bench::check_overwriting(options));
  TOWPATH_TRY(bench::check_places(options));
  if (options.scope.empty()) options.scope = cat("bench-", hex(sys::random_u64()));
  const bool is_target = arguments.role == "target" || !options.listen.empty();
  if (options.all_backends && !is_target)
    return error(Code::invalid_argument, "--backend all is for the side that listens",
                 "measure one at a time; `towpath explain` compares them");
  if (options.backend.empty()) options.backend = usual_backend(options.remote, far);
  return {};
}

// ---- the two roles ----

Result<Exit> run_target(const Options& options) {
  const bench::Machine machine(options);
  TOWPATH_TRY(const auto target, bench::Target::open(options, machine));
  if (!options.listen.empty())
    TOWPATH_TRY(print(cat(options.all_backends ? "all backends" : options.backend, " at ",
                          target->door(), ", for one initiator\n")));
  const pid_t parent = getppid();
  TOWPATH_TRY(target->serve([&]() -> Status {
    if (!options.listen.empty() || getppid() == parent) return {};
    return error(Code::peer_lost, "the initiator is gone");
  }));
  return Exit::ok;
}

/// Rows for people, as they come; nothing when a program reads standard output.
class Reported {
 public:
  static Result<Reported> open(const Options& options) {
    Reported reported;
    if (options.json != "-") {
      TOWPATH_TRY(Output out, Output::open("-"));
      reported.out_.emplace(std::move(out));
    }
    return reported;
  }
  /// At once: a row may take long.
  Status say(const std::string& text) {
    if (!out_) return {};
    TOWPATH_TRY(out_->write(text));
    return out_->flush();
  }
  Colours colours() const { return out_ && out_->is_terminal() ? Colours::yes : Colours::no; }

 private:
  std::optional<Output> out_;
};

Result<Exit> run_initiator(const Options& options) {
  TOWPATH_TRY(const bench::Room room, room_for(options));
  const bench::Machine machine(options);
  TOWPATH_TRY(const auto node,
              bench::open_node(bench::kInitiator, options, {.registry = &machine.registry}));
  TOWPATH_TRY(const auto partner, bench::OpenPartner::open(options, machine, *node));
  TOWPATH_TRY(const auto remote, bench::open_remote(options, *node, partner->meeting(), room));
  TOWPATH_TRY(const auto runner,
              bench::Runner::open(options, {machine, *node, *remote}, room.bytes));
  bench::Setting setting{.partner = partner->what(), .remote = remote->what()};
  TOWPATH_TRY(Reported reported, Reported::open(options));
  TOWPATH_TRY(reported.say(head_text(options, setting) + bench::titles_text()));
  std::vector<bench::Row> rows;
  bool passed = true;
  for (const bench::Shape& shape : bench::shapes_of(options)) {
    TOWPATH_TRY(bench::Row row, runner->measure(shape));
    TOWPATH_TRY(reported.say(row_text(row, reported.colours())));
    passed = passed && row.wrong.empty();
    rows.push_back(std::move(row));
  }
  setting.path = runner->path();
  TOWPATH_TRY(reported.say(end_text(setting, rows, reported.colours())));
  if (!options.json.empty()) TOWPATH_TRY(write_json(options.json, to_json(options, setting, rows)));
  return passed ? Exit::ok : Exit::found_wrong;
}

Result<Exit> run_bench(Arguments& arguments) {
  TOWPATH_TRY(take(arguments));
  const Options& options = arguments.options;
  if (options.remote == MemoryKind::disk && options.file.empty())
    TOWPATH_TRY(check_directory(options.directory, "--filepath"));
  if (arguments.role == "target" || !options.listen.empty()) return run_target(options);
  return run_initiator(options);
}

// ---- the command line ----

void add_what(Command& command, Arguments& arguments) {
  Options& options = arguments.options;
  command.option("--backend", options.backend,
                 "Default: shm; posix for a file; tcp to a host; `all` to listen");
  command.op_type(options.op);
  command.option("--initiator_seg_type", arguments.initiator_kind, "DRAM, PINNED or VRAM (a GPU's)")
      .shows_default();
  command
      .option("--device", options.device,
              "For PINNED and VRAM: gpu, or host: host memory emulates one")
      .shows_default()
      .one_of({"gpu", "host"});
  command
      .option("--target_seg_type", arguments.target_kind,
              "The same, or FILE, OBJ (a store's objects), BLK (a drive)")
      .takes("TEXT [DRAM, or of --backend]");
  command.option("--start_block_size", arguments.start_block).shows_default();
  command.option("--max_block_size", arguments.max_block, "Doubled up to here").shows_default();
  command.option("--start_batch_size", options.start_batch_size, "Blocks per transfer")
      .shows_default()
      .whole(1);
  command.option("--max_batch_size", options.max_batch_size, "Doubled up to here")
      .shows_default()
      .whole(1);
  command.option("--total_buffer_size", arguments.total, "At most so much on each side")
      .shows_default();
  command.flag("--scatter", options.scatter, "Gaps between blocks: none can be merged");
}

void add_how(Command& command, Arguments& arguments) {
  Options& options = arguments.options;
  command.option("--num_iter", options.iterations, "Transfers per row and thread")
      .shows_default()
      .whole(1);
  command.option("--warmup_iter", options.warmup).shows_default().whole();
  command
      .option("--large_blk_iter_ftr", options.large_block_factor,
              "Divides --num_iter for blocks above 1 MiB")
      .shows_default()
      .whole(1);
  command.option("--num_threads", options.threads).shows_default().whole(1);
  command.option("--pipeline_depth", options.pipeline_depth, "Transfers in flight per thread")
      .shows_default()
      .whole(1);
  command.flag("--recreate_xfer", options.recreate, "Make the transfer anew each time");
  command.flag("--enable_pt", options.progress_thread, "With a progress thread");
  command.flag("--check_consistency", options.verify, "Verify every byte (the default)");
  command.flag("!--no_check", options.verify, "Skip verification");
}

void add_where(Command& command, Arguments& arguments) {
  Options& options = arguments.options;
  command.option("--listen", options.listen, "Be the target here; serves one initiator")
      .takes("HOST:PORT");
  command.option("--connect", options.connect, "The target listens there")
      .takes("HOST:PORT")
      .not_with("--listen");
  command.option("--token_file", options.token_file, "Holds the secret that both sides share")
      .takes("FILE");
  command.flag("--one_process", options.one_process, "The other side is a thread");
  command.option("--filepath", options.directory, "Directory of the nameless file").shows_default();
  command.option("--filename", options.file, "A new file instead, which loses this name at once");
  command.option("--drive", options.drive, "For BLK: an NVMe namespace's /dev/ngXnY");
  command.flag("--overwrite_drive", options.overwrite_drive,
               "The bytes at the drive's begin may be lost");
  command.flag("--storage_enable_direct", options.direct, "Past the page cache (O_DIRECT)");
  command.option("--timeout", arguments.timeout_s, "Seconds, for a transfer or a next word")
      .shows_default()
      .positive();
  command.output("--json", options.json, "Write the rows here; -: standard output");
  command.option("--role", arguments.role).hidden();
  command.option("--scope", options.scope).hidden();
}

}  // namespace

void add_bench(Command& towpath) {
  Command command = towpath.add("bench", "Measure how fast bytes move between two agents");
  const auto arguments = std::make_shared<Arguments>();
  command.takes_the_last();
  add_what(command, *arguments);
  add_how(command, *arguments);
  add_where(command, *arguments);
  command.footer(kFooter);
  command.when_chosen([arguments] { return run_bench(*arguments); });
}

}  // namespace towpath::tools
