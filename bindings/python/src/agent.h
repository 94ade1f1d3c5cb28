// towpath.Agent: an agent with everything that it is given (standard::Node), for Python.
// Thread: with the interpreter's lock, which every call into the library gives up.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include <towpath/compat/nixl/backends.h>
#include <towpath/standard/metadata_exchange.h>
#include <towpath/standard/standard.h>

#include "bindings/python/src/convert.h"
#include "bindings/python/src/gil.h"
#include "bindings/python/src/memory.h"
#include "bindings/python/src/nixl_memory.h"
#include "bindings/python/src/transfer.h"

namespace towpath::python {

/// Dies in the reverse order: who brings metadata before the agent whose they are.
struct Home {
  explicit Home(const standard::Settings& settings) : log(settings) {}

  sys::SystemClock clock;
  standard::StderrSink log;
  backend::Registry registry;  ///< the plug-ins that the environment names among them
  std::unique_ptr<nixl::NixlBackends> nixl;
  NixlMemory nixl_memory;
  std::unique_ptr<standard::Node> node;
  std::shared_ptr<standard::MetadataExchange> exchange;  ///< null: none; set with the lock
};

class PyAgent {
 public:
  struct Options {
    Name name;
    bool progress_thread = true;
    std::optional<double> default_timeout;  ///< none: what the environment says
    bool telemetry = false;                 ///< unless the environment decides
  };
  explicit PyAgent(const Options& options);

  /// Shuts down: transfers end, memory is let go of. Again is harmless.
  void close() { home_.reset(); }
  bool closed() const noexcept { return !home_; }
  /// Raises NotReady after close().
  std::shared_ptr<Home> home() const;

  /// Runs `work(agent)` without the interpreter's lock. Raises NotReady after close().
  template <typename Work>
  auto call(Work&& work) const {
    const std::shared_ptr<Home> kept = home();
    return unlocked([&] { return work(kept->node->agent()); });
  }
  /// The same, and gives the value of the Result or raises.
  template <typename Work>
  auto ask(Work&& work) const {
    return unwrap(call(std::forward<Work>(work)));
  }
  /// The same for a Status.
  template <typename Work>
  void report(Work&& work) const {
    check(call(std::forward<Work>(work)));
  }

 private:
  Handle<Home> home_;
};

void bind_agent(py::module_& module);

}  // namespace towpath::python
