// The interpreter's lock, and how the library lives with it.
//
//   Result<Bytes> metadata = unlocked([&] { return agent.metadata(); });
//   if (!metadata.ok()) ...                                       // raise, with the lock again
//
// Rule: whatever may wait, or take a lock of the library, runs in unlocked(). So nobody waits for
// the library while holding the interpreter's lock, and the library never takes that one: Python
// objects that it kept alive are put aside when it lets go of them, and dropped by the next call
// that comes back, or by the main thread.
// Thread: unlocked() with the lock held; keep_alive()'s result may die on any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include <pybind11/pybind11.h>

#include <towpath/core/clock.h>

namespace towpath::python {

namespace py = pybind11;

/// However long a wait: signals are examined as often as this.
inline constexpr Duration kLongestSleep = std::chrono::milliseconds(100);

/// Drops the objects that were put aside. With the interpreter's lock.
void drop_put_aside() noexcept;

bool is_finalizing() noexcept;
void stay_if_python_ends();

/// How many forks lie between this process and the one that loaded the module: asks no kernel.
std::uint64_t forks() noexcept;

class Unlocked {
 public:
  Unlocked() : saved_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  /// When the interpreter ends meanwhile, a thread that is not its own never comes back from here:
  /// it sleeps until the process ends, or is unwound by Python, which a destructor must let pass.
  ~Unlocked() noexcept(false) {
    stay_if_python_ends();
    PyEval_RestoreThread(saved_);
    drop_put_aside();
  }

 private:
  PyThreadState* saved_;
};

template <typename Work>
auto unlocked(Work&& work) {
  const Unlocked guard;
  return std::forward<Work>(work)();
}

/// The calls that are at work with what another thread may close meanwhile. Thread: any.
class Calls {
 public:
  /// None begins after wait() has: the interpreter's lock keeps that apart.
  void begin() noexcept { word_.fetch_add(1, std::memory_order_relaxed); }
  void end() noexcept;
  /// Until all have ended. Without the interpreter's lock.
  void wait() noexcept;

 private:
  std::atomic<std::uint32_t> word_{0};  // how many, and whether somebody waits
};

/// Ends a call that began.
class CallEnding {
 public:
  explicit CallEnding(Calls& calls) noexcept : calls_(calls) {}
  CallEnding(const CallEnding&) = delete;
  CallEnding& operator=(const CallEnding&) = delete;
  ~CallEnding() { calls_.end(); }

 private:
  Calls& calls_;
};

/// The calls of all that have a WeakHandle of one thing, which its owner waits for.
struct ClosableCalls {
  Calls calls;
  bool is_closed = false;  // with the interpreter's lock: no call begins any more
};

/// Keeps no T alive, but for the time of a call. Thread: with the interpreter's lock.
template <typename T>
class WeakHandle {
 public:
  WeakHandle() = default;
  WeakHandle(std::weak_ptr<T> value, std::shared_ptr<ClosableCalls> calls) noexcept
      : value_(std::move(value)), calls_(std::move(calls)) {}

  /// Runs `work(value)` without the interpreter's lock. Null: the owner closes it, or has.
  template <typename Work>
  auto call(Work&& work) const {
    T* const none = nullptr;
    if (calls_ == nullptr || calls_->is_closed) return unlocked([&] { return work(none); });
    calls_->calls.begin();
    return unlocked([&] {
      const CallEnding ending(calls_->calls);  // behind `kept`: the owner's is the last one
      const std::shared_ptr<T> kept = value_.lock();
      return work(kept.get());
    });
  }

 private:
  std::weak_ptr<T> value_;
  std::shared_ptr<ClosableCalls> calls_;
};

/// A reference to `object` that the library may hold, and let go of on any thread.
std::shared_ptr<const void> keep_alive(py::object object);

/// Owns a T whose end may wait: it dies without the interpreter's lock. Copied with the lock; moved
/// before anybody calls.
/// A forked child inherits handles, but nothing behind them that still works, and what their end
/// would notify others is not true: there they do nothing at all.
template <typename T>
class Handle {
 public:
  explicit Handle(std::shared_ptr<T> value) noexcept : value_(std::move(value)) {}
  Handle(Handle&& other) noexcept
      : value_(std::move(other.value_)), made_after_(other.made_after_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() { reset(); }

  /// Runs `work(value)` without the interpreter's lock, and reset() by another thread waits for its
  /// end. There must be a value.
  template <typename Work>
  auto call(Work&& work) const {
    T& value = *value_;
    calls_.begin();
    return unlocked([&] {
      // Has ended when the lock is taken again: what runs then may be a finalizer that closes this.
      const CallEnding ending(calls_);
      return work(value);
    });
  }

  /// A second owner for the time of a call, so that a reset() by another thread is harmless. Where
  /// it is the last, T dies when it goes.
  std::shared_ptr<T> get() const noexcept { return value_; }
  explicit operator bool() const noexcept { return value_ != nullptr; }
  /// Whether this process is a forked child of the one that made it.
  bool is_inherited() const noexcept { return forks() != made_after_; }
  /// Comes back when no call() is under way any more and T is gone, or is another owner's.
  void reset() {
    auto last = std::move(value_);
    if (last == nullptr) return;
    if (is_inherited()) {
      new std::shared_ptr<T>(std::move(last));  // forgotten on purpose
      return;
    }
    unlocked([&] {
      calls_.wait();
      last.reset();
    });
  }

 private:
  std::shared_ptr<T> value_;
  mutable Calls calls_;
  std::uint64_t made_after_ = forks();
};

}  // namespace towpath::python
