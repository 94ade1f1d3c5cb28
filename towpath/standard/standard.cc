#include <cstdio>
#include <string>

#include <towpath/backends/gds/gds_backend.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/backends/messages/message_backend.h>
#include <towpath/backends/nvme/nvme_backend.h>
#include <towpath/backends/object/object_backend.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/backends/shm/shm_backend.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/run/worker.h>
#include <towpath/staging/staged_backend.h>
#include <towpath/standard/nixl_names.h>
#include <towpath/standard/object_settings.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/standard.h>
#include <towpath/standard/stderr_sink.h>
#include <towpath/standard/ucx_port.h>
#include <towpath/standard/wire_security.h>

namespace towpath::standard {
namespace {

// However idle: look whether the thread was asked to stop.
constexpr Duration kLongestNap = std::chrono::milliseconds(100);

}  // namespace

backend::Registry make_registry(const device::DriverSource& devices) {
  backend::Registry registry;
  const auto add = [&](backend::BackendType type) {
    const Status added = registry.add(std::move(type));
    TOWPATH_CHECK(added.ok(), "two built-in backends of one name");
  };
  // They move bytes of host memory; a GPU's go through slots of it.
  const auto add_staged = [&](backend::BackendType type) {
    add(staging::staged(std::move(type), devices));
  };
  add(backends::loopback::loopback_type());
  add_staged(backends::shm::shm_type(devices));
  add_staged(backends::posix::posix_type());
  add(backends::gds::gds_type(devices.open));
  add_staged(backends::nvme::nvme_type());
  add_staged(with_wire_security(backends::messages::tcp_type(devices)));
  const auto ucx = [](backend::BackendType type) {
    return refused_where_encrypted(with_port_warning(std::move(type)));
  };
  add_staged(ucx(backends::messages::ucx_type(devices)));
  add(ucx(backends::messages::ucx_device_type(devices)));
  add_staged(backends::object::object_type([] { return object_params(read_environment()); }));
  add_nixl_aliases(registry);
  return registry;
}

Node::Node() : stderr_sink_(std::make_unique<StderrSink>()), registry_(make_registry()) {}

Result<std::unique_ptr<Node>> Node::open(const NodeOptions& options) {
  std::unique_ptr<Node> node(new Node());
  telemetry::EventSink& sink = options.log != nullptr ? *options.log : *node->stderr_sink_;
  if (options.telemetry) {
    TelemetryOptions telemetry = *options.telemetry;
    telemetry.agent = options.name;
    telemetry.log = {sink, node->clock_, cat("telemetry of ", printable(options.name))};
    TOWPATH_TRY(node->telemetry_, Telemetry::open(telemetry, node->clock_));
  }
  TOWPATH_TRY(node->agent_,
              agent::Agent::create(
                  {.name = options.name,
                   .registry = options.registry != nullptr ? options.registry : &node->registry_,
                   .clock = &node->clock_,
                   .log = &sink,
                   .default_timeout = options.default_timeout,
                   .meter = node->telemetry_ ? &node->telemetry_->meter() : nullptr}));
  for (const std::string& backend : options.backends)
    TOWPATH_TRY(node->agent_->add_backend(backend));
  if (!options.progress_thread) return node;
  TOWPATH_TRY(
      run::Worker worker,
      run::Worker::start("towpath", [agent = node->agent_.get()](const run::StopToken& stop) {
        while (!stop.stop_requested()) agent->serve(kLongestNap);
      }));
  node->worker_ = std::make_unique<run::Worker>(std::move(worker));
  return node;
}

Node::~Node() {
  if (agent_ && agent_->is_inherited()) {
    // A forked child lets go of nothing: it is all the parent's.
    (void)worker_.release();
    (void)telemetry_.release();
    (void)agent_.release();
    return;
  }
  if (!worker_) return;
  worker_->request_stop();
  agent_->wake();
  worker_.reset();
}

}  // namespace towpath::standard
