#include "bindings/python/src/gil.h"

#include <atomic>
#include <mutex>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include <towpath/run/futex.h>

namespace towpath::python {
namespace {

/// One per process, as the interpreter is, and never freed: threads may end after the interpreter.
struct PutAside {
  std::atomic<bool> any{false};  // changes with the mutex; a stale false waits for the next call
  std::mutex mutex;
  std::vector<PyObject*> objects;
};

PutAside& put_aside() {
  static auto* const kPlace = new PutAside();
  return *kPlace;
}

/// A child counts one more than its parent.
struct Forks {
  Forks() {
    pthread_atfork(nullptr, nullptr, [] { count().fetch_add(1, std::memory_order_relaxed); });
  }
  static std::atomic<std::uint64_t>& count() {
    static std::atomic<std::uint64_t> forks{0};
    return forks;
  }
};

int drop_when_called(void*) {
  drop_put_aside();
  return 0;
}

void let_go(PyObject* object) noexcept {
  bool first = false;
  {
    const std::lock_guard lock(put_aside().mutex);
    first = put_aside().objects.empty();
    put_aside().objects.push_back(object);
    put_aside().any.store(true, std::memory_order_relaxed);
  }
  // So that they go even if nobody calls again; when the queue is full, the next call drops them.
  if (first && Py_IsInitialized() != 0) (void)Py_AddPendingCall(drop_when_called, nullptr);
}

constexpr std::uint32_t kSomebodyWaits = std::uint32_t{1} << 31U;  // in Calls, above the number

}  // namespace

// Release: pairs with wait(), behind which what the calls worked with goes.
void Calls::end() noexcept {
  // The word may be gone after this; waking does not read it.
  if (word_.fetch_sub(1, std::memory_order_release) == (kSomebodyWaits | 1))
    run::futex_wake(word_, run::kWakeAll);
}

void Calls::wait() noexcept {
  std::uint32_t now = word_.fetch_or(kSomebodyWaits, std::memory_order_acquire) | kSomebodyWaits;
  while (now != kSomebodyWaits) {
    (void)run::futex_wait(word_, now);
    now = word_.load(std::memory_order_acquire);
  }
}

// Relaxed: a child has one thread when it counts.
std::uint64_t forks() noexcept {
  static const Forks kCounted;
  return kCounted.count().load(std::memory_order_relaxed);
}

bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;  // public since 3.13, which has the private one no more
#else
  return _Py_IsFinalizing() != 0;
#endif
}

void stay_if_python_ends() {
  if (!is_finalizing()) return;
  const bool is_main_thread = gettid() == getpid();
  if (is_main_thread) return;
  while (true) pause();
}

void drop_put_aside() noexcept {
  if (!put_aside().any.load(std::memory_order_relaxed)) return;
  std::vector<PyObject*> objects;
  {
    const std::lock_guard lock(put_aside().mutex);
    put_aside().any.store(false, std::memory_order_relaxed);
    objects.swap(put_aside().objects);
  }
  const py::error_scope whatever_is_raised_now;
  for (PyObject* object : objects) Py_DECREF(object);
}

std::shared_ptr<const void> keep_alive(py::object object) {
  PyObject* const raw = object.release().ptr();
  return {static_cast<const void*>(raw), [raw](const void*) { let_go(raw); }};
}

}  // namespace towpath::python
