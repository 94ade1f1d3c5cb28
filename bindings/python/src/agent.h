// towpath.Agent: an agent with everything that it is given (standard::Node), for Python.
// Thread: with the interpreter's lock, which every call into the library gives up.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include <towpath/compat/nixl/backends.h>
#include <towpath/run/mutex.h>
#include <towpath/standard/metadata_exchange.h>
#include <towpath/standard/standard.h>
#include <towpath/standard/stderr_sink.h>

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
  run::Mutex exchange_mutex;
  /// Null: none. Once there is one it stays.
  std::unique_ptr<standard::MetadataExchange> exchange TOWPATH_GUARDED_BY(exchange_mutex);
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
  PyAgent(const PyAgent&) = delete;
  PyAgent& operator=(const PyAgent&) = delete;
  ~PyAgent() { close(); }

  /// Shuts down, once the calls of other threads have ended: transfers end, memory is let go of.
  /// Again is harmless.
  void close() {
    if (home_ && !home_.is_inherited()) {
      weak_calls_->is_closed = true;
      unlocked([&] { weak_calls_->calls.wait(); });
    }
    home_.reset();
  }
  bool closed() const noexcept { return !home_; }
  /// Raises NotReady after close(), and in a forked child.
  void check_open() const;
  /// For what does not keep the agent open. Raises as check_open().
  WeakHandle<Home> home() const {
    check_open();
    return {home_.get(), weak_calls_};
  }

  /// Runs `work(home)` without the interpreter's lock. Raises as check_open().
  template <typename Work>
  auto in_home(Work&& work) const {
    check_open();
    return home_.call(std::forward<Work>(work));
  }
  /// The same with the agent.
  template <typename Work>
  auto call(Work&& work) const {
    return in_home([&](Home& home) { return work(home.node->agent()); });
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
  std::shared_ptr<ClosableCalls> weak_calls_ = std::make_shared<ClosableCalls>();
};

void bind_agent(py::module_& module);

}  // namespace towpath::python
