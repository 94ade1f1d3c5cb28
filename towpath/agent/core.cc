#include <new>
#include <utility>

#include <towpath/agent/core.h>
#include <towpath/core/format.h>
#include <towpath/sys/random.h>
#include <towpath/telemetry/agent_meter.h>

namespace towpath::agent {

Result<std::shared_ptr<AgentCore>> AgentCore::create(const AgentOptions& options) {
  if (options.name.empty() || options.name.size() > kMaxAgentName) {
    return error(Code::invalid_argument, cat("an agent's name has 1 to ", kMaxAgentName,
                                             " bytes; this one has ", options.name.size()));
  }
  if (options.registry == nullptr || options.clock == nullptr)
    return error(Code::invalid_argument, "an agent needs a registry of backends and a clock",
                 "use standard::Node::open(), which brings both");
  const std::uint64_t incarnation =
      options.incarnation != 0 ? options.incarnation : sys::random_u64();
  Foundation made;
  made.context = std::make_unique<AgentContext>(options, AgentIdentity{options.name, incarnation});
  made.backends = std::make_unique<BackendSet>(*made.context);
  TOWPATH_TRY(made.engine, ProgressEngine::open(*made.context, *made.backends));
  if (options.meter != nullptr) options.meter->opened(incarnation);
  std::shared_ptr<AgentCore> core(new AgentCore(std::move(made)));
  core->context.core = core;
  return core;
}

AgentCore::AgentCore(Foundation foundation)
    : foundation_(std::move(foundation)),
      context(*foundation_.context),
      backends(*foundation_.backends),
      engine(*foundation_.engine),
      registrations(context, backends, engine),
      peers(context, backends, engine),
      transfers(context, backends, engine, peers) {}

namespace {

/// Of a backend that goes again, since something failed or threw: its descriptor is watched no
/// more, as the number becomes another's, and the path over it is closed.
struct UntilKept {
  ProgressEngine& engine;
  PeerBook& peers;
  BackendInstance* instance;
  ~UntilKept() {
    if (instance == nullptr) return;
    engine.unwatch(instance->backend->wait_fd());
    peers.close_own(*instance);
  }
};

}  // namespace

Status AgentCore::add_backend(std::string_view type, const backend::Params& params) {
  run::MutexLock lock(adding_);
  TOWPATH_TRY(std::unique_ptr<BackendInstance> made, backends.make(type, params, engine));
  TOWPATH_TRY(engine.watch(*made));
  BackendInstance& instance = *made;
  UntilKept goes{engine, peers, &instance};
  TOWPATH_TRY(peers.open_own(instance));
  registrations.advertise(instance);
  backends.publish(std::move(made));
  registrations.note_published();
  goes.instance = nullptr;
  peers.use_own(instance);
  return {};
}

InstanceMask AgentCore::quiesce_all(const std::shared_ptr<AgentCore>& self) {
  const Status why = error(Code::cancelled, "the agent was shut down");
  const auto everything = [](const TransferCore&) { return true; };
  InstanceMask idle = 0;
  for (const auto& instance : backends.all()) {
    if (!engine.quiesce(*instance, everything, Outcome::cancelled, why))
      context.log.error("shut down with transfers that did not come to rest",
                        {{"backend", instance->name}});
    const bool is_revoked = registrations.revoke_all(*instance);
    run::MutexLock lock(instance->mutex);
    // Bytes may still move: backend, connections and memory stay for good, with this core.
    if (!is_revoked || instance->any_active(everything))
      immortal_ = self;
    else
      idle |= instance_bit(instance->index);
  }
  return idle;
}

void AgentCore::shut_down_or_stay() noexcept {
  if (context.closed.exchange(true)) return;
  const std::shared_ptr<AgentCore> self = context.core.lock();
  InstanceMask idle = 0;
  try {
    idle = shut_down();
  } catch (const std::bad_alloc&) {
    immortal_ = self;
  }
  context.is_over.store(true, std::memory_order_seq_cst);
  engine.announce_end();
  backends.close(idle);
  try {
    context.log.report_suppressed();
  } catch (const std::bad_alloc&) {  // then nobody hears their number
  }
  context.sink.end();
}

InstanceMask AgentCore::shut_down() {
  if (context.meter() != nullptr) context.meter()->closed(context.self.incarnation);
  const InstanceMask idle = quiesce_all(context.core.lock());
  engine.flush_notifications();
  registrations.drop_memory(idle);
  peers.close(idle);
  transfers.close();
  for (const auto& instance : backends.all())
    if ((idle & instance_bit(instance->index)) != 0) engine.unwatch(instance->backend->wait_fd());
  return idle;
}

}  // namespace towpath::agent
