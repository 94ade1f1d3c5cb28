#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <towpath/backend/open_descriptor.h>
#include <towpath/backend/path_mode.h>
#include <towpath/backend/weak_table.h>
#include <towpath/core/format.h>
#include <towpath/standard/plugin_backend.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/os_error.h>
#include <towpath/telemetry/log.h>

namespace towpath::standard {
namespace {

using namespace backend;

constexpr std::size_t kMaxPairs = 256;
constexpr std::size_t kMaxParams = 256;

/// A sentence that a plug-in writes.
class Why {
 public:
  char* data() noexcept { return text_.data(); }
  static constexpr std::size_t size() noexcept { return sizeof text_; }
  Status status(std::int32_t code, std::string_view plugin, std::string_view doing) {
    text_.back() = '\0';
    return failure(code, cat(plugin, ": ", doing, ": ", printable(text_.data(), text_.size())));
  }
  /// A code that we do not know becomes an I/O error.
  static Status failure(std::int32_t code, std::string message) {
    const bool known = code > 0 && code <= static_cast<std::int32_t>(Code::internal);
    return error(known ? static_cast<Code>(code) : Code::io_error, std::move(message));
  }

 private:
  std::array<char, 256> text_{};
};

/// A file that regions name by a descriptor of theirs.
struct OwnFile {
  OpenDescriptor identity;
  sys::Fd fd;  // our own: it is open while the plug-in has it, also when theirs is closed
};

/// One for all regions of a file, which may be thousands.
class Files {
 public:
  /// Null: the region has no open file, or names one by its path.
  Result<std::shared_ptr<const OwnFile>> of(const RegionDescriptor& region) {
    if (region.kind != MemoryKind::disk || region.fd < 0) return std::shared_ptr<const OwnFile>();
    const auto mode = PathMode::parse(region.key);
    if (mode.ok() && mode->has_value()) return std::shared_ptr<const OwnFile>();
    TOWPATH_TRY(const OpenDescriptor identity, identify_descriptor(region.fd));
    if (auto known = open_.find(identity)) return known;
    sys::Fd own(::fcntl(region.fd, F_DUPFD_CLOEXEC, 0));
    if (!own) return sys::os_error(errno, cat("cannot duplicate descriptor ", region.fd));
    auto file = std::make_shared<const OwnFile>(OwnFile{identity, std::move(own)});
    open_.put(identity, file);
    return file;
  }

 private:
  WeakTable<OpenDescriptor, const OwnFile> open_;
};

class PluginMemory final : public Memory {
 public:
  PluginMemory(const towpath_backend_v1_t& plugin, void* backend, void* memory,
               std::shared_ptr<const OwnFile> file)
      : plugin_(plugin), backend_(backend), memory_(memory), file_(std::move(file)) {}
  ~PluginMemory() override { plugin_.deregister_memory(backend_, memory_); }
  void* handle() const noexcept { return memory_; }
  const OwnFile* file() const noexcept { return file_.get(); }

 private:
  const towpath_backend_v1_t& plugin_;
  void* backend_;
  void* memory_;
  const std::shared_ptr<const OwnFile> file_;
};

class PluginOperation final : public Operation {
 public:
  PluginOperation(const towpath_backend_v1_t& plugin, void* backend)
      : plugin_(plugin), backend_(backend) {}

  void post(const Request& request) override {
    segments_.clear();
    segments_.reserve(request.segments.size());
    for (const Segment& segment : request.segments) {
      segments_.push_back({.local = handle_of(segment.local),
                           .remote = handle_of(segment.remote),
                           .local_address = segment.local_address,
                           .remote_address = segment.remote_address,
                           .length = segment.length,
                           .count = segment.count,
                           .local_stride = segment.local_stride,
                           .remote_stride = segment.remote_stride});
    }
    is_active_ = true;
    plugin_.post(backend_, this, static_cast<std::uint32_t>(request.op), segments_.data(),
                 segments_.size());
  }

  void cancel() override {
    if (is_active_) plugin_.cancel(backend_, this);
  }

  /// False: it was not active, so the plug-in has completed it twice.
  bool end() noexcept { return std::exchange(is_active_, false); }

 private:
  static void* handle_of(const Memory* memory) {
    return static_cast<const PluginMemory*>(memory)->handle();
  }

  const towpath_backend_v1_t& plugin_;
  void* backend_;
  std::vector<towpath_segment_v1> segments_;
  bool is_active_ = false;
};

class PluginBackend final : public Backend {
 public:
  PluginBackend(const towpath_backend_v1_t& plugin, std::shared_ptr<void> loaded,
                const BackendContext& context)
      : plugin_(plugin),
        loaded_(std::move(loaded)),
        self_(context.self),
        events_(*context.events),
        host_{.size = sizeof host_, .self = this, .complete = &PluginBackend::complete} {
    log_ = context.log_as(plugin.name);
    describe();
  }
  ~PluginBackend() override {
    if (backend_ != nullptr) plugin_.close(backend_);
  }

  Status open(const Params& params) {
    std::vector<towpath_param_v1> given;
    for (const auto& [name, value] : params) given.push_back({name.c_str(), value.c_str(), ""});
    Why why;
    const std::int32_t code =
        plugin_.open(&host_, given.data(), given.size(), &backend_, why.data(), why.size());
    if (code == 0) return {};
    backend_ = nullptr;
    return why.status(code, plugin_.name, "cannot open");
  }

  const Capabilities& capabilities() const override { return capabilities_; }

  Result<std::unique_ptr<Memory>> register_memory(const RegionDescriptor& region) override {
    TOWPATH_TRY(std::shared_ptr<const OwnFile> file, files_.of(region));
    const towpath_region_v1 reported{.size = sizeof reported,
                                     .kind = static_cast<std::uint32_t>(region.kind),
                                     .fd = file ? file->fd.get() : -1,
                                     .address = region.address,
                                     .length = region.length,
                                     .device_id = region.device_id,
                                     .key = region.key.data(),
                                     .key_length = region.key.size()};
    Why why;
    void* memory = nullptr;
    const std::int32_t code =
        plugin_.register_memory(backend_, &reported, &memory, why.data(), why.size());
    if (code != 0) return why.status(code, plugin_.name, cat("cannot take ", to_string(region)));
    return std::make_unique<PluginMemory>(plugin_, backend_, memory, std::move(file));
  }

  // A user may have closed a file that is registered, and opened another, which has its number now.
  Status confirm(const Memory& memory, const RegionDescriptor& region) const override {
    const OwnFile* const file = static_cast<const PluginMemory&>(memory).file();
    if (file == nullptr) return {};
    return confirm_descriptor(region.fd, file->identity, "the one that was there before");
  }

  Result<std::unique_ptr<Connection>> connect(const AgentIdentity& peer, ConstByteSpan) override {
    if (peer == self_) return std::make_unique<Connection>();
    return error(Code::unsupported, cat(plugin_.name, " moves bytes within one agent"));
  }

  Result<std::unique_ptr<Memory>> import_memory(Connection&, const RegionDescriptor&,
                                                ConstByteSpan) override {
    return error(Code::unsupported, cat(plugin_.name, " moves bytes within one agent"));
  }

  std::unique_ptr<Operation> make_operation() override {
    return std::make_unique<PluginOperation>(plugin_, backend_);
  }

  bool progress() override { return plugin_.progress(backend_); }
  int wait_fd() const override { return plugin_.wait_fd(backend_); }
  std::string describe_path(const Memory&, const Memory&) const override {
    return cat("the plug-in ", plugin_.name, ": ", plugin_.summary);
  }

 private:
  void describe() {
    for (const towpath_pair_v1& pair : std::span(plugin_.pairs, plugin_.pair_count)) {
      capabilities_.pairs.push_back({.local = *memory_kind_from_number(pair.local_kind),
                                     .remote = *memory_kind_from_number(pair.remote_kind),
                                     .read = pair.read,
                                     .write = pair.write,
                                     .to_self = true});
    }
    capabilities_.alignment = std::max<std::uint64_t>(1, plugin_.alignment);
    if (plugin_.quiesced_within_ns != 0) {
      capabilities_.quiesced = Quiescence::bounded;
      capabilities_.quiescence_bound = Duration(plugin_.quiesced_within_ns);
    }
    capabilities_.cost = {.latency = Duration(plugin_.latency_ns),
                          .bytes_per_second = plugin_.bytes_per_second};
  }

  static void complete(void* self, void* operation, std::int32_t code, const char* message,
                       std::uint64_t bytes) {
    auto& backend = *static_cast<PluginBackend*>(self);
    auto& ended = *static_cast<PluginOperation*>(operation);
    if (!ended.end()) {
      backend.log_.error("the plug-in completed an operation twice; ignored");
      return;
    }
    Status status;
    if (code != 0) {
      const std::string_view said = message != nullptr ? message : "no reason given";
      status = Why::failure(code, cat(backend.plugin_.name, ": ", printable(said, 256)));
    }
    backend.events_.on_complete(ended, {.status = status, .bytes = bytes, .failures = {}});
  }

  const towpath_backend_v1_t& plugin_;
  const std::shared_ptr<void> loaded_;  // dies last
  const AgentIdentity self_;
  Events& events_;
  telemetry::Log log_;
  Capabilities capabilities_;
  const towpath_host_v1 host_;
  Files files_;
  void* backend_ = nullptr;
};

Status check(const towpath_backend_v1_t& plugin) {
  if (plugin.size < sizeof plugin)
    return error(Code::unsupported,
                 cat("its description has ", plugin.size, " bytes of ", sizeof plugin),
                 "build it against this version's plugin_abi.h");
  const bool whole = plugin.name && plugin.summary && plugin.open && plugin.close &&
                     plugin.register_memory && plugin.deregister_memory && plugin.post &&
                     plugin.cancel && plugin.progress && plugin.wait_fd;
  if (!whole) return error(Code::invalid_argument, "its description lacks a name or a function");
  const bool countable = plugin.pair_count > 0 && plugin.pair_count <= kMaxPairs && plugin.pairs &&
                         plugin.param_count <= kMaxParams &&
                         (plugin.params || plugin.param_count == 0);
  if (!countable)
    return error(Code::invalid_argument, cat("it has ", plugin.pair_count, " routes and ",
                                             plugin.param_count, " parameters"));
  for (const towpath_pair_v1& pair : std::span(plugin.pairs, plugin.pair_count)) {
    if (!memory_kind_from_number(pair.local_kind) || !memory_kind_from_number(pair.remote_kind))
      return error(Code::invalid_argument, cat("a route from kind ", pair.local_kind, " to kind ",
                                               pair.remote_kind, ", which are not both known"));
  }
  return {};
}

std::vector<MemoryKind> kinds_of(const towpath_backend_v1_t& plugin) {
  std::vector<MemoryKind> kinds;
  for (const towpath_pair_v1& pair : std::span(plugin.pairs, plugin.pair_count)) {
    for (const std::uint32_t number : {pair.local_kind, pair.remote_kind}) {
      const MemoryKind kind = *memory_kind_from_number(number);
      if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
    }
  }
  return kinds;
}

}  // namespace

Result<BackendType> plugin_type(const towpath_backend_v1_t& plugin,
                                std::shared_ptr<void> keep_loaded) {
  TOWPATH_TRY(check(plugin));
  BackendType type{.name = plugin.name, .summary = plugin.summary, .kinds = kinds_of(plugin)};
  for (const towpath_param_v1& param : std::span(plugin.params, plugin.param_count))
    type.params.push_back({param.name, param.value, param.meaning});
  type.open = [&plugin, keep_loaded = std::move(keep_loaded)](
                  const BackendContext& context) -> Result<std::unique_ptr<Backend>> {
    auto opened = std::make_unique<PluginBackend>(plugin, keep_loaded, context);
    TOWPATH_TRY(opened->open(context.params));
    return opened;
  };
  return type;
}

}  // namespace towpath::standard
