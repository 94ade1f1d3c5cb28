// towpath.Transfer: a promise that ends exactly once, for Python.
// Thread: with the interpreter's lock, which waiting gives up.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <pybind11/pybind11.h>

#include <towpath/agent/agent.h>
#include <towpath/agent/transfer.h>

#include "bindings/python/src/convert.h"
#include "bindings/python/src/gil.h"

namespace towpath::python {

/// One side of transfers.
class PyPrepared {
 public:
  explicit PyPrepared(agent::PreparedList list)
      : handle_(std::make_shared<agent::PreparedList>(std::move(list))) {}
  /// Raises NotReady after release().
  std::shared_ptr<agent::PreparedList> get() const;
  std::uint64_t size() const { return get()->size(); }
  void release() { handle_.reset(); }

 private:
  Handle<agent::PreparedList> handle_;
};

class PyAgent;
struct Home;

/// True: done. False: under way, or draining. Raises what it failed with.
bool poll(const agent::Transfer& transfer);
/// Posts, and helps where that did not move all of it: who asks again and again would keep the
/// processor from the thread that moves the bytes. As poll() after that. Raises NotReady after the
/// agent's close().
bool post_and_look(const PyAgent& agent, agent::Transfer& transfer, const Blob& notification);
/// Helps, then as poll(). None: it was never posted. Raises as post_and_look().
std::optional<bool> look(const PyAgent& agent, const agent::Transfer& transfer);

class PyTransfer {
 public:
  /// `home`: the agent's, where Python may await this.
  explicit PyTransfer(agent::Transfer transfer, WeakHandle<Home> home = {})
      : PyTransfer(std::make_shared<agent::Transfer>(std::move(transfer)), std::move(home)) {}
  explicit PyTransfer(std::shared_ptr<agent::Transfer> transfer, WeakHandle<Home> home = {})
      : handle_(std::move(transfer)), home_(std::move(home)) {}
  /// A second owner of the same transfer. Raises NotReady after release().
  PyTransfer another_handle() const { return PyTransfer(get(), home_); }
  const WeakHandle<Home>& home() const noexcept { return home_; }

  /// The transfer. Raises NotReady after release(), and in a forked child.
  std::shared_ptr<agent::Transfer> get() const;
  /// The same, and null instead.
  std::shared_ptr<agent::Transfer> get_if_any() const noexcept {
    return handle_.is_inherited() ? nullptr : handle_.get();
  }
  void post(const std::optional<double>& timeout, const std::optional<Blob>& notification);
  /// As poll(), after at most `timeout` seconds. Ctrl-C interrupts it.
  bool wait(const std::optional<double>& timeout) const;
  void release() { handle_.reset(); }

 private:
  Handle<agent::Transfer> handle_;
  WeakHandle<Home> home_;
};

void bind_transfers(py::module_& module);

}  // namespace towpath::python
