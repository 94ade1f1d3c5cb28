#include <algorithm>
#include <utility>

#include <towpath/backend/self_connection.h>
#include <towpath/backends/object/memories.h>
#include <towpath/backends/object/object_backend.h>
#include <towpath/backends/object/operation.h>
#include <towpath/backends/object/options.h>
#include <towpath/backends/object/probe.h>
#include <towpath/backends/object/store.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/run/mutex.h>

namespace towpath::backends::object {
namespace {

using namespace backend;

// For uploads that are taken back while the backend closes.
constexpr Duration kLongestGoodbye = std::chrono::seconds(2);
// All of its requests together: they move no bytes of objects.
constexpr Duration kLongestQuery = std::chrono::minutes(1);

Capabilities object_capabilities() {
  Capabilities can;
  for (const MemoryKind local : kHostKinds)
    can.pairs.push_back({.local = local, .remote = MemoryKind::object, .to_self = true});
  can.quiesced = Quiescence::immediate;
  can.cost = {.latency = std::chrono::milliseconds(10),
              .per_segment = std::chrono::microseconds(1),
              .bytes_per_second = 5e8};
  return can;
}

class ObjectBackend final : public Backend {
 public:
  ObjectBackend(const BackendContext& context, BackendOptions options)
      : self_(context.self),
        clock_(*context.clock),
        events_(*context.events),
        options_(std::move(options)),
        log_(context.log_as("object")),
        counters_(context.metrics, self_.name),
        table_(self_) {}
  ~ObjectBackend() override;
  Status start() {
    if (!options_.tls.verify && options_.store.scheme == "https")
      log_.warning("the store's certificate is not verified",
                   {{"store", options_.store.to_string()},
                    {"hint", "leave verify_tls away, and name its authority in ca_bundle"}});
    TOWPATH_TRY(client_, Client::open(options_, clock_, counters_, log_));
    return {};
  }

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<Memory>> register_memory(const RegionDescriptor& region) override;
  Result<std::unique_ptr<Connection>> connect(const AgentIdentity& peer,
                                              ConstByteSpan info) override {
    return connect_to_self({.backend = "object", .things = "objects"}, self_, peer, info);
  }
  Result<std::unique_ptr<Memory>> import_memory(Connection& connection,
                                                const RegionDescriptor& region,
                                                ConstByteSpan key) override;
  std::unique_ptr<Operation> make_operation() override {
    return std::make_unique<ObjectOperation>(
        ObjectOperation::Surroundings{*client_, counters_, events_, log_});
  }
  bool progress() override { return client_->progress(); }
  int wait_fd() const override { return client_->wait_fd(); }
  std::string describe_path(const Memory& local, const Memory& remote) const override;
  Result<std::vector<std::optional<Params>>> query(
      std::span<const RegionDescriptor> descriptors) override;

 private:
  Result<std::unique_ptr<Memory>> register_object(const RegionDescriptor& region);

  const AgentIdentity self_;
  const Clock& clock_;
  Events& events_;
  const BackendOptions options_;
  const Capabilities capabilities_ = object_capabilities();
  telemetry::Log log_;
  Counters counters_;
  std::unique_ptr<Client> client_;
  run::Mutex query_mutex_;
  std::unique_ptr<Store> store_ TOWPATH_GUARDED_BY(query_mutex_);  // opened by the first query
  ObjectTable table_;
};

// Operations are over, so what is left are uploads to take back: their parts cost money.
ObjectBackend::~ObjectBackend() {
  auto poller = run::Poller::open();
  const Instant end = clock_.now() + kLongestGoodbye;
  const bool waits = poller.ok() && client_ && poller->add(client_->wait_fd(), 0).ok();
  while (waits && client_->size() > 0 && clock_.now() < end) {
    if (!client_->progress()) (void)poller->wait(std::chrono::milliseconds(50));
  }
  if (client_ && client_->size() > 0)
    log_.warning("closed while uploads were being taken back: their parts stay in the store",
                 {{"requests", cat(client_->size())},
                  {"hint", "give the bucket a rule that ends incomplete uploads"}});
  log_.debug("closed", {{"moved", counters_.to_string()}});
}

// ---- Memory

Result<std::unique_ptr<Memory>> ObjectBackend::register_memory(const RegionDescriptor& region) {
  if (region.length == 0 || !checked_add(region.address, region.length))
    return error(Code::invalid_argument, cat("no such region: ", to_string(region)));
  if (region.kind == MemoryKind::object) return register_object(region);
  if (!is_host_addressable(region.kind))
    return error(Code::unsupported, cat("object cannot move ", name_of(region.kind), " memory"),
                 "use system, pinned or object memory, or a backend for this kind");
  if (region.address == 0)
    return error(Code::invalid_argument, cat("no such region: ", to_string(region)));
  return std::make_unique<LocalMemory>(region.kind);
}

Result<std::unique_ptr<Memory>> ObjectBackend::register_object(const RegionDescriptor& region) {
  TOWPATH_TRY(ObjectName name, ObjectName::of(region, options_.bucket, options_.store.style));
  TOWPATH_TRY(auto record, table_.add(region, std::move(name)));
  return std::make_unique<ObjectMemory>(std::move(record), &table_);
}

Result<std::unique_ptr<Memory>> ObjectBackend::import_memory(Connection&,
                                                             const RegionDescriptor& region,
                                                             ConstByteSpan key) {
  TOWPATH_TRY(const std::uint64_t id, id_of_key(key));
  TOWPATH_TRY(auto record, table_.find(id, region));
  return std::make_unique<ObjectMemory>(std::move(record));
}

std::string ObjectBackend::describe_path(const Memory&, const Memory& remote) const {
  std::string out = cat("HTTP to ", options_.store.to_string(), ", ", options_.connections,
                        " requests at a time, parts of ", format_bytes(options_.part_bytes));
  const auto& object = static_cast<const ObjectBackendMemory&>(remote);
  if (object.kind() == MemoryKind::object)
    out += cat("; ", to_string(static_cast<const ObjectMemory&>(object).name()));
  return out;
}

Result<std::vector<std::optional<Params>>> ObjectBackend::query(
    std::span<const RegionDescriptor> descriptors) {
  const run::MutexLock lock(query_mutex_);
  if (!store_) {
    BackendOptions asking = options_;
    asking.timeout = std::min(asking.timeout, kLongestQuery);
    TOWPATH_TRY(store_, Store::open(asking, clock_));
  }
  std::vector<std::optional<Params>> answers(descriptors.size());
  std::vector<Ask> asks;
  std::vector<std::size_t> whose;
  const auto reported = [&](std::size_t i, const Status& why) {
    return error(why.code(), cat("descriptor ", i, " of ", descriptors.size(), ": ", why.message()),
                 std::string(why.hint()));
  };
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    if (descriptors[i].kind != MemoryKind::object) continue;
    auto name = ObjectName::of(descriptors[i], options_.bucket, options_.store.style);
    if (!name.ok()) return reported(i, name.status());
    asks.push_back({.method = "HEAD", .name = *std::move(name)});
    whose.push_back(i);
  }
  const auto responses = store_->call(std::move(asks));
  for (std::size_t k = 0; k < responses.size(); ++k) {
    const auto& response = responses[k];
    if (response.code() == Code::not_found) continue;
    if (!response.ok()) return reported(whose[k], response.status());
    answers[whose[k]] = Params{{"size", std::string(response->header("content-length"))},
                               {"etag", std::string(response->header("etag"))},
                               {"last_modified", std::string(response->header("last-modified"))}};
  }
  return answers;
}

}  // namespace

BackendType object_type(UsualParams usual) {
  const auto options_of = [usual =
                               std::move(usual)](const Params& given) -> Result<BackendOptions> {
    if (!usual) return BackendOptions::parse(given);
    TOWPATH_TRY(const Params known, usual());
    return BackendOptions::parse(merge(known, given));
  };
  BackendType type;
  type.name = "object";
  type.summary = "host memory to and from objects of an S3-compatible store";
  type.kinds = {MemoryKind::system, MemoryKind::pinned, MemoryKind::object};
  type.params = BackendOptions::describe();
  type.probe = [options_of](const Params& params) { return probe_store(options_of(params)); };
  type.open = [options_of](const BackendContext& context) -> Result<std::unique_ptr<Backend>> {
    TOWPATH_TRY(BackendOptions options, options_of(context.params));
    auto made = std::make_unique<ObjectBackend>(context, std::move(options));
    TOWPATH_TRY(made->start());
    return made;
  };
  return type;
}

}  // namespace towpath::backends::object
