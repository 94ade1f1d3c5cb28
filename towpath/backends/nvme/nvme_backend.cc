#include <utility>

#include <towpath/backend/device_ids.h>
#include <towpath/backend/self_connection.h>
#include <towpath/backends/nvme/dispatcher.h>
#include <towpath/backends/nvme/kernel_driver.h>
#include <towpath/backends/nvme/memories.h>
#include <towpath/backends/nvme/nvme_backend.h>
#include <towpath/backends/nvme/options.h>
#include <towpath/backends/nvme/probe.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/telemetry/log.h>

namespace towpath::backends::nvme {
namespace {

using namespace backend;

// The kernel gives a command up after nvme_core.io_timeout (30 s), aborts it, and resets the
// controller after as long again; until then it cannot be taken back.
constexpr Duration kQuiescenceBound = std::chrono::seconds(60);

Capabilities nvme_capabilities() {
  Capabilities can;
  for (const MemoryKind local : kHostKinds)
    can.pairs.push_back({.local = local, .remote = MemoryKind::block, .to_self = true});
  can.alignment = 4096;
  can.quiesced = Quiescence::bounded;
  can.quiescence_bound = kQuiescenceBound;
  can.cost = {.latency = std::chrono::microseconds(10),
              .per_segment = Duration(500),
              .bytes_per_second = 3e9};
  return can;
}

struct Parts {
  std::shared_ptr<Driver> driver;
  std::unique_ptr<Engine> engine;
  sys::Mapping windows;
};

class NvmeBackend final : public Backend {
 public:
  NvmeBackend(const BackendContext& context, const BackendOptions& options, Parts parts)
      : self_(context.self),
        log_(context.log_as("nvme")),
        driver_(std::move(parts.driver)),
        engine_(std::move(parts.engine)),
        counters_(context.metrics, self_.name),
        dispatcher_({.depth = options.depth, .durable = options.durable}, std::move(parts.windows),
                    *engine_, *context.events, counters_),
        records_(self_) {}
  ~NvmeBackend() override { log_.debug("closed", {{"moved", counters_.to_string()}}); }

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<Memory>> register_memory(const RegionDescriptor& region) override;
  Result<std::unique_ptr<Connection>> connect(const AgentIdentity& peer,
                                              ConstByteSpan info) override {
    return connect_to_self({.backend = "nvme", .things = "namespaces"}, self_, peer, info);
  }
  Result<std::unique_ptr<Memory>> import_memory(Connection& connection,
                                                const RegionDescriptor& region,
                                                ConstByteSpan key) override;
  std::unique_ptr<Operation> make_operation() override { return dispatcher_.make_operation(); }
  bool progress() override { return dispatcher_.progress(); }
  int wait_fd() const override { return engine_->wait_fd(); }
  std::string describe_path(const Memory& local, const Memory& remote) const override;

 private:
  Result<std::unique_ptr<Memory>> register_extent(const RegionDescriptor& region);

  const AgentIdentity self_;
  const Capabilities capabilities_ = nvme_capabilities();
  telemetry::Log log_;
  const std::shared_ptr<Driver> driver_;
  const std::unique_ptr<Engine> engine_;
  Counters counters_;
  Dispatcher dispatcher_;
  BlockTable records_;
  DeviceIds<std::uint64_t> device_ids_;  // by the numbers of namespaces
};

// ---- Memory

Status check_fits(const RegionDescriptor& region, const NamespaceInfo& info) {
  if (range_fits(region.address, region.length, info.size_bytes())) return {};
  return error(Code::out_of_range,
               cat(to_string(region), " is beyond the end of ", info.path, ", which has ",
                   info.size_bytes(), " bytes"),
               "name an extent that the namespace has");
}

Result<std::unique_ptr<Memory>> NvmeBackend::register_memory(const RegionDescriptor& region) {
  if (region.length == 0 || !checked_add(region.address, region.length))
    return error(Code::invalid_argument, cat("no such region: ", to_string(region)));
  if (region.kind == MemoryKind::block) return register_extent(region);
  TOWPATH_TRY(check_region("nvme", capabilities_, region));
  return std::make_unique<LocalMemory>(region.kind, &dispatcher_);
}

Result<std::unique_ptr<Memory>> NvmeBackend::register_extent(const RegionDescriptor& region) {
  TOWPATH_TRY(const memory::BlockKey key, memory::BlockKey::parse(region.key));
  TOWPATH_TRY(std::shared_ptr<Namespace> target, driver_->open(key.path, key.access));
  const NamespaceInfo& info = target->info();
  TOWPATH_TRY(check_fits(region, info));
  TOWPATH_TRY(auto named, device_ids_.take(region.device_id, info.number, info.path));
  log_.debug("namespace registered", {{"path", info.path},
                                      {"model", info.model},
                                      {"writable", target->writable() ? "yes" : "no"}});
  auto record = records_.add(region);
  record->target = std::move(target);
  record->named = std::move(named);
  return std::make_unique<BlockMemory>(&dispatcher_, std::move(record), &records_);
}

Result<std::unique_ptr<Memory>> NvmeBackend::import_memory(Connection&,
                                                           const RegionDescriptor& region,
                                                           ConstByteSpan key) {
  TOWPATH_TRY(const std::uint64_t id, id_of_key(key));
  TOWPATH_TRY(auto record, records_.find(id, region));
  return std::make_unique<BlockMemory>(&dispatcher_, std::move(record));
}

std::string NvmeBackend::describe_path(const Memory& local, const Memory& remote) const {
  std::string out = engine_->describe();
  const auto& host = static_cast<const PieceMemory&>(local);
  const auto& device = static_cast<const PieceMemory&>(remote);
  if (!is_host_addressable(host.kind()) || device.kind() != MemoryKind::block) return out;
  const NamespaceInfo& info = static_cast<const BlockMemory&>(device).info();
  return cat(out, " to ", info.path, " (", info.model, "), up to ",
             format_bytes(info.max_transfer_bytes), " a command; whole blocks of ",
             info.block_bytes, " B at addresses that are multiples of ", kAddressUnit,
             " go straight, the rest over a window in memory");
}

Result<std::unique_ptr<Backend>> open_backend(const BackendContext& context,
                                              std::shared_ptr<Driver> driver) {
  TOWPATH_TRY(const BackendOptions options, BackendOptions::parse(context.params));
  Parts parts{.driver = std::move(driver)};
  TOWPATH_TRY(parts.engine, parts.driver->make_engine(options.depth));
  TOWPATH_TRY(parts.windows, sys::Mapping::anonymous(options.depth * kWindowBytes));
  return std::make_unique<NvmeBackend>(context, options, std::move(parts));
}

}  // namespace

BackendType nvme_type(std::shared_ptr<Driver> driver) {
  BackendType type;
  type.name = "nvme";
  type.summary = "host memory to and from raw NVMe namespaces of this machine";
  type.kinds = {MemoryKind::system, MemoryKind::pinned, MemoryKind::block};
  type.params = BackendOptions::describe();
  type.probe = [](const Params&) { return probe(); };
  type.open = [driver = std::move(driver)](const BackendContext& context) {
    return open_backend(context, driver);
  };
  return type;
}

BackendType nvme_type() { return nvme_type(kernel_driver()); }

}  // namespace towpath::backends::nvme
