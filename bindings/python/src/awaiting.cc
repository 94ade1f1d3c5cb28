#include "bindings/python/src/awaiting.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <towpath/agent/awaiting.h>

#include "bindings/python/src/agent.h"

namespace towpath::python {
namespace {

Status agent_is_closed() { return error(Code::not_ready, "this agent was closed"); }

/// The events of one agent, and the transfers that tasks of one loop await. It does not keep the
/// agent open. Thread: the loop's, with the interpreter's lock.
class AgentEvents {
 public:
  explicit AgentEvents(WeakHandle<Home> home)
      : home_(std::move(home)), source_(std::shared_ptr<agent::EventSource>(unwrap(open()))) {}

  int fileno() const { return source()->fd(); }
  void wake() const { source()->wake(); }
  void close() { source_.reset(); }

  std::uint64_t add(const PyTransfer& transfer) {
    awaited_.push_back({++added_, transfer.get()});
    return added_;
  }
  void remove(std::uint64_t number) {
    std::erase_if(awaited_, [&](const Awaited& one) { return one.number == number; });
  }

  /// Makes progress, then: the numbers of the transfers that have ended, whether there are
  /// notifications, and whether the agent was closed.
  py::tuple turn() {
    (void)source();  // or raises
    // The agent's end waits for it.
    source_.call([](agent::EventSource& events) { events.progress(); });
    ++turns_;
    py::list ended;
    for (const Awaited& one : awaited_)
      if (one.transfer->ended()) ended.append(one.number);
    return py::make_tuple(ended, source()->has_notifications(), source()->is_over());
  }
  std::uint64_t turns() const noexcept { return turns_; }

 private:
  struct Awaited {
    std::uint64_t number;
    std::shared_ptr<agent::Transfer> transfer;
  };

  Result<std::unique_ptr<agent::EventSource>> open() const {
    return home_.call([](Home* home) -> Result<std::unique_ptr<agent::EventSource>> {
      if (home == nullptr) return agent_is_closed();
      return agent::EventSource::open(home->node->agent());
    });
  }
  std::shared_ptr<agent::EventSource> source() const {
    if (!source_) raise(agent_is_closed());
    return source_.get();
  }

  WeakHandle<Home> home_;
  Handle<agent::EventSource> source_;
  std::vector<Awaited> awaited_;
  std::uint64_t added_ = 0;
  std::uint64_t turns_ = 0;
};

WeakHandle<Home> home_of(const py::object& awaited) {
  return py::isinstance<PyAgent>(awaited) ? py::cast<PyAgent&>(awaited).home()
                                          : py::cast<PyTransfer&>(awaited).home();
}

std::uintptr_t key_of(const py::object& awaited) {
  const auto key =
      home_of(awaited).call([](Home* home) { return reinterpret_cast<std::uintptr_t>(home); });
  if (key == 0) raise(agent_is_closed());
  return key;
}

}  // namespace

void bind_awaiting(py::module_& module) {
  module.def(
      "agent_key", &key_of,
      "Of an open agent, or of a transfer's: no other has it while an AgentEvents of it lives.");
  py::class_<AgentEvents>(module, "AgentEvents")
      .def(py::init([](const py::object& awaited) {
        return std::make_unique<AgentEvents>(home_of(awaited));
      }))
      .def("fileno", &AgentEvents::fileno)
      .def("wake", &AgentEvents::wake)
      .def("add", &AgentEvents::add)
      .def("remove", &AgentEvents::remove)
      .def("turn", &AgentEvents::turn)
      .def_property_readonly("turns", &AgentEvents::turns)
      .def("close", &AgentEvents::close);
}

}  // namespace towpath::python
