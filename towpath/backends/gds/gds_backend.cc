#include <towpath/backend/device_ids.h>
#include <towpath/backend/path_mode.h>
#include <towpath/backend/self_connection.h>
#include <towpath/backends/gds/dispatcher.h>
#include <towpath/backends/gds/gds_backend.h>
#include <towpath/backends/gds/options.h>
#include <towpath/backends/gds/places.h>
#include <towpath/backends/gds/streams.h>
#include <towpath/backends/gds/workers.h>
#include <towpath/core/checked.h>

namespace towpath::backends::gds {
namespace {

using namespace backend;

// As with posix: the kernel gives a drive up after about this long, and what runs cannot be
// cancelled.
constexpr Duration kQuiescenceBound = std::chrono::seconds(60);

Capabilities gds_capabilities() {
  Capabilities can;
  can.pairs = {{.local = MemoryKind::device, .remote = MemoryKind::disk, .to_self = true}};
  can.alignment = 4096;
  can.quiesced = Quiescence::bounded;
  can.quiescence_bound = kQuiescenceBound;
  // As posix, but for the bandwidth: what goes straight is taken before what is staged.
  can.cost = {.latency = std::chrono::microseconds(10),
              .per_segment = Duration(500),
              .bytes_per_second = 6e9};
  return can;
}

CuFileOptions library_options(const BackendOptions& options) {
  CuFileOptions library{.compat = options.compat};
  if (!options.library.empty()) library.libraries = {options.library};
  return library;
}

struct Parts {
  BackendOptions options;
  std::shared_ptr<device::Driver> driver;
  std::shared_ptr<const CuFile> cufile;
  std::unique_ptr<Counters> counters;
  std::unique_ptr<Engine> engine;
  telemetry::Log log;
};

class GdsBackend final : public Backend {
 public:
  GdsBackend(const BackendContext& context, Parts parts)
      : self_(context.self),
        parts_(std::move(parts)),
        places_(parts_.cufile, parts_.log),
        files_(self_),
        dispatcher_({.depth = parts_.options.depth(), .chunk_bytes = parts_.options.chunk_bytes},
                    *parts_.cufile, *parts_.engine, *context.events, *parts_.counters) {
    for (const std::string& directory : parts_.options.directories) {
      const Status decided = places_.decide(directory);
      parts_.log.info("decided", {{"directory", directory},
                                  {"straight", decided.ok() ? "yes" : decided.to_string()}});
    }
  }
  ~GdsBackend() override { parts_.log.debug("closed", {{"moved", parts_.counters->to_string()}}); }

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<Memory>> register_memory(const RegionDescriptor& region) override;
  Status confirm(const Memory& memory, const RegionDescriptor& region) const override;
  Result<std::unique_ptr<Connection>> connect(const AgentIdentity& peer,
                                              ConstByteSpan info) override {
    return connect_to_self({.backend = "gds", .things = "files"}, self_, peer, info);
  }
  Result<std::unique_ptr<Memory>> import_memory(Connection& connection,
                                                const RegionDescriptor& region,
                                                ConstByteSpan key) override;
  std::unique_ptr<Operation> make_operation() override { return dispatcher_.make_operation(); }
  bool progress() override { return dispatcher_.progress(); }
  int wait_fd() const override { return parts_.engine->wait_fd(); }
  std::string describe_path(const Memory& local, const Memory& remote) const override;

 private:
  Result<std::unique_ptr<Memory>> register_device(const RegionDescriptor& region);
  Result<std::unique_ptr<Memory>> register_file(const RegionDescriptor& region);

  const AgentIdentity self_;
  const Capabilities capabilities_ = gds_capabilities();
  const Parts parts_;
  Places places_;
  FileTable files_;
  DeviceIds<OpenDescriptor> device_ids_;
  Dispatcher dispatcher_;
};

Result<std::unique_ptr<Memory>> GdsBackend::register_memory(const RegionDescriptor& region) {
  if (region.length == 0 || !checked_add(region.address, region.length))
    return error(Code::invalid_argument, cat("no such region: ", to_string(region)));
  if (region.kind == MemoryKind::device) return register_device(region);
  if (region.kind == MemoryKind::disk) return register_file(region);
  return error(Code::unsupported, cat("gds cannot move ", name_of(region.kind), " memory"),
               "use device and disk memory, or a backend for this kind");
}

Result<std::unique_ptr<Memory>> GdsBackend::register_device(const RegionDescriptor& region) {
  if (region.address == 0)
    return error(Code::invalid_argument, cat("no such region: ", to_string(region)));
  TOWPATH_TRY(auto device, parts_.driver->open(device::ordinal_of(region.device_id)));
  auto memory = DeviceMemory::make({&dispatcher_, parts_.cufile, std::move(device)}, region);
  if (!memory->refusal().empty())
    parts_.log.warning("memory is not registered with libcufile: one more copy on the GPU",
                       {{"region", to_string(region)}, {"why", memory->refusal()}});
  return memory;
}

Result<std::unique_ptr<Memory>> GdsBackend::register_file(const RegionDescriptor& region) {
  TOWPATH_TRY(auto file, places_.open(region));
  TOWPATH_TRY(auto named, device_ids_.take(region.device_id, file->identity(), file->name()));
  auto record = files_.add(region);
  record->file = std::move(file);
  record->named = std::move(named);
  return std::make_unique<FileMemory>(&dispatcher_, std::move(record), &files_);
}

// A user may have closed a file that is registered, and opened another, which has its number now.
Status GdsBackend::confirm(const Memory& memory, const RegionDescriptor& region) const {
  if (region.kind != MemoryKind::disk) return {};
  TOWPATH_TRY(const auto mode, PathMode::parse(region.key));
  if (mode.has_value()) return {};  // the number says nothing
  return static_cast<const FileMemory&>(memory).file().confirm(region);
}

Result<std::unique_ptr<Memory>> GdsBackend::import_memory(Connection&,
                                                          const RegionDescriptor& region,
                                                          ConstByteSpan key) {
  TOWPATH_TRY(const std::uint64_t id, id_of_key(key));
  TOWPATH_TRY(auto record, files_.find(id, region));
  return std::make_unique<FileMemory>(&dispatcher_, std::move(record), nullptr);
}

std::string GdsBackend::describe_path(const Memory& local, const Memory& remote) const {
  std::string out = cat(parts_.cufile->describe(), ", ", parts_.engine->describe());
  const auto& here = static_cast<const PieceMemory&>(local);
  const auto& there = static_cast<const PieceMemory&>(remote);
  if (here.kind() != MemoryKind::device || there.kind() != MemoryKind::disk) return out;
  const std::string& refusal = static_cast<const DeviceMemory&>(here).refusal();
  return cat(out, ", ", refusal.empty() ? "registered buffer" : cat("plain buffer (", refusal, ")"),
             "; ", static_cast<const FileMemory&>(there).file().describe());
}

Finding probe_library(const BackendOptions& options) {
  Finding finding{.question = "Does libcufile start, and refuse its compat mode?",
                  .signal = "cuFileDriverOpen, cuFileDriverGetProperties",
                  .source = "this process"};
  const auto cufile = CuFile::open(library_options(options));
  finding.verdict = !cufile.ok()             ? Verdict::no
                    : (*cufile)->may_stage() ? Verdict::degraded
                                             : Verdict::yes;
  finding.reason = cufile.ok() ? (*cufile)->describe() : cufile.status().to_string();
  finding.hint = cufile.status().hint();
  return finding;
}

std::vector<Finding> probe(const Params& params) {
  const auto options = BackendOptions::parse(params);
  return {probe_library(options.ok() ? *options : BackendOptions())};
}

Result<std::unique_ptr<Engine>> open_engine(const BackendOptions& options, const CuFile& cufile,
                                            Counters& counters) {
  const bool batches = options.engine == EngineKind::batch;
  const bool streams = options.engine == EngineKind::stream;
  if ((batches && !cufile.has_batches()) || (streams && !cufile.has_streams()))
    return error(Code::unsupported,
                 cat(cufile.describe(), batches ? " has no batches" : " takes no I/O into streams"),
                 "use engine=threads");
  if (streams) {
    TOWPATH_TRY(auto engine, Streams::open({.streams = options.threads}, cufile, counters));
    return std::unique_ptr<Engine>(std::move(engine));
  }
  TOWPATH_TRY(auto engine, Workers::open({.threads = options.threads,
                                          .depth = options.depth(),
                                          .batch = batches ? options.batch_limit : 1},
                                         cufile, counters));
  return std::unique_ptr<Engine>(std::move(engine));
}

Result<std::unique_ptr<Backend>> open_backend(const BackendContext& context,
                                              const OpenDriver& open_driver) {
  Parts parts;
  TOWPATH_TRY(parts.options, BackendOptions::parse(context.params));
  TOWPATH_TRY(parts.cufile, CuFile::open(library_options(parts.options)));
  TOWPATH_TRY(parts.driver, open_driver());
  parts.log = context.log_as("gds");
  parts.counters = std::make_unique<Counters>(context.metrics, context.self.name);
  TOWPATH_TRY(parts.engine, open_engine(parts.options, *parts.cufile, *parts.counters));
  return std::make_unique<GdsBackend>(context, std::move(parts));
}

}  // namespace

BackendType gds_type(OpenDriver open_driver) {
  BackendType type;
  type.name = "gds";
  type.summary = "a GPU's memory to and from files of the agent itself, straight";
  type.kinds = {MemoryKind::device, MemoryKind::disk};
  type.params = BackendOptions::describe();
  type.probe = probe;
  type.open = [open_driver](const BackendContext& context) {
    return open_backend(context, open_driver);
  };
  return type;
}

}  // namespace towpath::backends::gds
