#include <array>
#include <cerrno>
#include <utility>

#include <sys/stat.h>

#include <towpath/backend/device_ids.h>
#include <towpath/backend/path_mode.h>
#include <towpath/backend/self_connection.h>
#include <towpath/backend/weak_table.h>
#include <towpath/backends/posix/dispatcher.h>
#include <towpath/backends/posix/memories.h>
#include <towpath/backends/posix/options.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/backends/posix/query.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/sys/uring.h>
#include <towpath/telemetry/log.h>

namespace towpath::backends::posix {
namespace {

using namespace backend;

constexpr std::array kLocalKinds = {MemoryKind::system, MemoryKind::pinned};
// A disk that answers no longer is given up by the kernel after about this long
// (/sys/block/*/device/timeout is 30 s, with one retry); until then its I/O cannot be cancelled.
constexpr Duration kQuiescenceBound = std::chrono::seconds(60);

Capabilities posix_capabilities() {
  Capabilities can;
  for (const MemoryKind local : kLocalKinds)
    can.pairs.push_back({.local = local, .remote = MemoryKind::disk, .to_self = true});
  can.alignment = 4096;
  can.quiesced = Quiescence::bounded;
  can.quiescence_bound = kQuiescenceBound;
  can.looks_pay = false;
  can.cost = {.latency = std::chrono::microseconds(10),
              .per_segment = Duration(500),
              .bytes_per_second = 2e9};
  return can;
}

class PosixBackend final : public Backend {
 public:
  PosixBackend(const BackendContext& context, const BackendOptions& options,
               run::OpenedFileEngine opened)
      : self_(context.self),
        options_(options),
        log_(context.log_as("posix")),
        engine_(std::move(opened.engine)),
        engine_refusal_(std::move(opened.refusal)),
        counters_(context.metrics, self_.name),
        engine_held_(counters_.engines(engine_->name()), 1),
        dispatcher_({.depth = options.depth,
                     .limits = {.chunk_bytes = options.chunk_bytes},
                     .buffers_for_page_cache = options.buffers == BufferUse::on},
                    *engine_, *context.events, counters_) {
    if (!engine_refusal_.empty())
      log_.warning("files go through threads", {{"why", engine_refusal_}});
  }
  ~PosixBackend() override { log_.debug("closed", {{"moved", counters_.to_string()}}); }

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<Memory>> register_memory(const RegionDescriptor& region) override;
  Status confirm(const Memory& memory, const RegionDescriptor& region) const override;
  Result<std::unique_ptr<Connection>> connect(const AgentIdentity& peer,
                                              ConstByteSpan info) override {
    return connect_to_self({.backend = "posix", .things = "files"}, self_, peer, info);
  }
  Result<std::unique_ptr<Memory>> import_memory(Connection& connection,
                                                const RegionDescriptor& region,
                                                ConstByteSpan key) override;
  std::unique_ptr<Operation> make_operation() override { return dispatcher_.make_operation(); }
  bool progress() override { return dispatcher_.progress(); }
  int wait_fd() const override { return engine_->wait_fd(); }
  std::string describe_path(const Memory& local, const Memory& remote) const override;
  Result<std::vector<std::optional<Params>>> query(
      std::span<const RegionDescriptor> descriptors) override {
    return query_files(descriptors);
  }

 private:
  Result<std::unique_ptr<Memory>> register_host(const RegionDescriptor& region);
  Result<std::unique_ptr<Memory>> register_file(const RegionDescriptor& region);
  Result<std::shared_ptr<OpenFile>> open_file(const OpenFile::Source& source);
  std::string describe_buffer(const LocalMemory& memory, const OpenFile& file) const;

  const AgentIdentity self_;
  const BackendOptions options_;
  const Capabilities capabilities_ = posix_capabilities();
  telemetry::Log log_;
  const std::unique_ptr<sys::FileEngine> engine_;
  const std::string engine_refusal_;
  Counters counters_;
  const Held engine_held_;
  Dispatcher dispatcher_;
  WeakTable<OpenDescriptor, OpenFile> files_;
  DeviceIds<OpenDescriptor> device_ids_;
  WeakTable<std::uint64_t, DiskRecord> records_;
  std::uint64_t next_record_ = 1;
};

// ---- Memory

Result<std::unique_ptr<Memory>> PosixBackend::register_memory(const RegionDescriptor& region) {
  if (region.length == 0 || !checked_add(region.address, region.length))
    return error(Code::invalid_argument, cat("no such region: ", to_string(region)));
  if (is_host_addressable(region.kind)) return register_host(region);
  if (region.kind == MemoryKind::disk) return register_file(region);
  return error(Code::unsupported, cat("posix cannot move ", name_of(region.kind), " memory"),
               "use system, pinned or disk memory, or a backend for this kind");
}

Result<std::unique_ptr<Memory>> PosixBackend::register_host(const RegionDescriptor& region) {
  if (region.address == 0)
    return error(Code::invalid_argument, cat("no such region: ", to_string(region)));
  auto memory = LocalMemory::make(region.kind, dispatcher_,
                                  options_.buffers != BufferUse::off ? engine_.get() : nullptr,
                                  bytes_at(region.address, region.length));
  if (!memory->refusal().empty())
    log_.info("memory is not pinned with the engine",
              {{"region", to_string(region)}, {"why", memory->refusal()}});
  return memory;
}

Result<std::unique_ptr<Memory>> PosixBackend::register_file(const RegionDescriptor& region) {
  auto record = std::make_shared<DiskRecord>();
  TOWPATH_TRY(const auto mode, PathMode::parse(region.key));
  OpenedPath ours;  // the file's own descriptors outlive it
  if (mode.has_value()) {
    TOWPATH_TRY(ours, open_path(*mode));
  } else if (region.fd < 0 && !region.key.empty()) {
    TOWPATH_TRY(ours, open_plain_path(region.key));
  }
  if (!ours.fd && region.fd < 0)
    return error(Code::invalid_argument, cat(to_string(region), " names no open file"),
                 "set RegionDescriptor::fd to the open file, or key to its path");
  TOWPATH_TRY(record->file, open_file({.fd = ours.fd ? ours.fd.get() : region.fd,
                                       .name = mode.has_value() ? mode->path : region.key,
                                       .direct_refusal = std::move(ours.direct_refusal)}));
  TOWPATH_TRY(record->named,
              device_ids_.take(region.device_id, record->file->identity(), record->file->name()));
  record->id = next_record_++;
  record->region = region;
  records_.put(record->id, record);
  return std::make_unique<DiskMemory>(&dispatcher_, std::move(record),
                                      DiskMemory::Role::registration);
}

Status PosixBackend::confirm(const Memory& memory, const RegionDescriptor& region) const {
  if (region.kind != MemoryKind::disk || region.fd < 0) return {};
  TOWPATH_TRY(const auto mode, PathMode::parse(region.key));
  if (mode.has_value()) return {};  // the number says nothing
  const OpenFile& file = static_cast<const DiskMemory&>(memory).file();
  return confirm_descriptor(region.fd, file.identity(), file.name());
}

Result<std::shared_ptr<OpenFile>> PosixBackend::open_file(const OpenFile::Source& source) {
  TOWPATH_TRY(const OpenDescriptor identity, identify_descriptor(source.fd));
  if (auto file = files_.find(identity)) return file;
  TOWPATH_TRY(auto file, OpenFile::open(source, *engine_, counters_));
  if (file->direct()) TOWPATH_TRY(dispatcher_.prepare_bounce());
  log_.debug("file registered", {{"file", file->name()}, {"path", file->describe()}});
  files_.put(identity, file);
  return file;
}

Result<std::unique_ptr<Memory>> PosixBackend::import_memory(Connection&,
                                                            const RegionDescriptor& region,
                                                            ConstByteSpan key) {
  TOWPATH_TRY(const std::uint64_t id, DiskMemory::id_from_key(key));
  const auto record = records_.find(id);
  if (record == nullptr || !record->registered)
    return error(Code::not_found, cat("file registration ", id, " does not exist (any more)"),
                 "register the file, and load the own metadata again");
  const Descriptor whole{region.address, region.length, region.device_id};
  if (region.kind != MemoryKind::disk || !record->region.covers(whole))
    return error(Code::corrupt, cat(to_string(region), " is not inside of what was registered: ",
                                    to_string(record->region)));
  return std::make_unique<DiskMemory>(&dispatcher_, record, DiskMemory::Role::import);
}

std::string PosixBackend::describe_path(const Memory& local, const Memory& remote) const {
  std::string out = engine_->describe();
  if (!engine_refusal_.empty()) out += cat(" (io_uring is refused: ", engine_refusal_, ")");
  const auto& host = static_cast<const PieceMemory&>(local);
  const auto& disk = static_cast<const PieceMemory&>(remote);
  if (!is_host_addressable(host.kind()) || disk.kind() != MemoryKind::disk) return out;
  const OpenFile& file = static_cast<const DiskMemory&>(disk).file();
  return cat(out, ", ", describe_buffer(static_cast<const LocalMemory&>(host), file), "; ",
             file.describe());
}

std::string PosixBackend::describe_buffer(const LocalMemory& memory, const OpenFile& file) const {
  if (!memory.refusal().empty()) return cat("plain buffer (", memory.refusal(), ")");
  if (file.direct() || options_.buffers == BufferUse::on) return "registered buffer";
  return "plain buffer (auto: the page cache copies faster from and to plain ones)";
}

std::vector<Finding> probe(const Params& params) {
  std::vector<Finding> findings = sys::probe_ring();
  const auto options = BackendOptions::parse(params);
  Finding finding{.question = "Which engine moves bytes between memory and files?",
                  .signal = "opening it",
                  .source = "this process"};
  const auto opened = options.ok() ? run::open_file_engine(options->engine, options->depth)
                                   : Result<run::OpenedFileEngine>(options.status());
  if (!opened.ok()) {
    finding.verdict = Verdict::no;
    finding.reason = opened.status().to_string();
    finding.hint = opened.status().hint();
  } else {
    finding.verdict = opened->refusal.empty() ? Verdict::yes : Verdict::degraded;
    finding.reason = opened->engine->describe();
    if (!opened->refusal.empty()) {
      finding.reason += cat(": ", opened->refusal);
      finding.hint = "allow io_uring: small I/Os cost less with it";
    }
  }
  findings.push_back(std::move(finding));
  return findings;
}

}  // namespace

BackendType posix_type() {
  BackendType type;
  type.name = "posix";
  type.summary = "host memory to and from files of the agent itself";
  type.kinds = {MemoryKind::system, MemoryKind::pinned, MemoryKind::disk};
  type.params = BackendOptions::describe();
  type.probe = probe;
  type.open = [](const BackendContext& context) -> Result<std::unique_ptr<Backend>> {
    TOWPATH_TRY(const BackendOptions options, BackendOptions::parse(context.params));
    TOWPATH_TRY(run::OpenedFileEngine opened, run::open_file_engine(options.engine, options.depth));
    return std::make_unique<PosixBackend>(context, options, std::move(opened));
  };
  return type;
}

}  // namespace towpath::backends::posix
