#include <towpath/backend/self_connection.h>
#include <towpath/backend/slice_runner.h>
#include <towpath/backends/tutorial/tutorial_backend.h>

namespace towpath::backends::tutorial {
namespace {

using namespace backend;

// What it can do, as data: the agent chooses by this, and the suite holds the backend to every
// line.
Capabilities tutorial_capabilities() {
  Capabilities can;
  for (SupportedPair pair : host_pairs()) {
    pair.to_peer = false;
    can.pairs.push_back(pair);
  }
  can.quiesced = Quiescence::immediate;  // bytes move inside of its calls alone: SliceRunner
  can.cost = {.latency = Duration(200), .per_segment = Duration(10), .bytes_per_second = 5e9};
  return can;
}

class TutorialBackend final : public Backend, private SliceMover {
 public:
  explicit TutorialBackend(const BackendContext& context)
      : self_(context.self), events_(*context.events) {}

  const Capabilities& capabilities() const override { return capabilities_; }

  // An engine that must know memory before it moves bytes there gets to know it here.
  Result<std::unique_ptr<Memory>> register_memory(const RegionDescriptor& region) override {
    TOWPATH_TRY(check_region("tutorial", capabilities_, region));
    return std::make_unique<Memory>();
  }
  Result<std::unique_ptr<Connection>> connect(const AgentIdentity& peer,
                                              ConstByteSpan info) override {
    return connect_to_self({.backend = "tutorial", .things = "memory"}, self_, peer, info);
  }
  // The other end of a transfer to oneself: registered by the same agent, and still what it was.
  Result<std::unique_ptr<Memory>> import_memory(Connection&, const RegionDescriptor& region,
                                                ConstByteSpan) override {
    auto memory = std::make_unique<Memory>();
    memory->is_read_only = region.is_read_only;
    return memory;
  }

  std::unique_ptr<Operation> make_operation() override { return runner_.make_operation(); }
  bool progress() override { return runner_.progress(); }
  std::string describe_path(const Memory&, const Memory&) const override {
    return "memcpy within the agent";
  }

 private:
  Status admit(const Request&) override { return {}; }
  // About kSliceBytes of it, or less: the caller has other things to do.
  Status move(SliceTask& task) override {
    std::uint64_t budget = kSliceBytes;
    while (budget > 0 && !task.at().done()) task.copy(0, budget);
    return {};
  }

  const AgentIdentity self_;
  Events& events_;
  const Capabilities capabilities_ = tutorial_capabilities();
  SliceRunner runner_{events_, *this};
};

}  // namespace

BackendType tutorial_type() {
  BackendType type;
  type.name = "tutorial";
  type.summary = "memory of one agent, by plain copies";
  type.kinds = {kHostKinds.begin(), kHostKinds.end()};
  // What it needs of the machine, and what to do where that is missing: `towpath doctor` prints it.
  type.probe = [](const Params&) {
    return std::vector{Finding{.question = "Can an agent copy within its own memory?",
                               .signal = "nothing: it needs plain memory only",
                               .source = "this process",
                               .verdict = Verdict::yes,
                               .reason = "it has an address space",
                               .hint = {}}};
  };
  type.open = [](const BackendContext& context) -> Result<std::unique_ptr<Backend>> {
    return std::make_unique<TutorialBackend>(context);
  };
  return type;
}

}  // namespace towpath::backends::tutorial
