// Guarded: a value that threads of Python share, one at a time.
//
//   guarded.call([](Value& value) { ... })           without the interpreter's lock
//   guarded.call_briefly([](Value& value) { ... })   with it, where nobody else is at work
//
// Thread: any, with the interpreter's lock.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "bindings/python/src/convert.h"
#include "bindings/python/src/gil.h"

namespace towpath::python {

/// What the handle holds. Raises NotReady after its close(), and in a forked child.
template <typename T>
std::shared_ptr<T> opened(const Handle<T>& handle) {
  std::shared_ptr<T> kept = handle.get();
  if (kept == nullptr || handle.is_inherited())
    raise(error(Code::not_ready, "it is closed, or of the process before a fork", "open another"));
  return kept;
}

/// Runs `work(value)` without the interpreter's lock. Raises as opened().
template <typename T, typename Work>
auto call_opened(const Handle<T>& handle, Work&& work) {
  (void)opened(handle);
  return handle.call(std::forward<Work>(work));
}

/// A value for one thread at a time, of which Python has many.
template <typename T>
class Guarded {
 public:
  explicit Guarded(T value) : state_(std::make_shared<State>(std::move(value))) {}

  /// Runs `work(value)` without the interpreter's lock. Raises NotReady after close().
  template <typename Work>
  auto call(Work&& work) const {
    return call_opened(state_, [&](State& state) {
      const std::lock_guard lock(state.mutex);
      return work(state.value);
    });
  }
  /// The same for work that takes no time, and at once where nobody else is at work: an interpreter
  /// that is let go of may be another thread's for long.
  template <typename Work>
  auto call_briefly(Work&& work) const {
    State* const state = state_.get().get();  // close() needs the interpreter
    if (state != nullptr && !state_.is_inherited() && state->mutex.try_lock()) {
      const std::lock_guard lock(state->mutex, std::adopt_lock);
      return work(state->value);
    }
    return call(std::forward<Work>(work));
  }
  void close() { state_.reset(); }

 private:
  struct State {
    explicit State(T given) : value(std::move(given)) {}
    std::mutex mutex;
    T value;
  };
  Handle<State> state_;
};

}  // namespace towpath::python
