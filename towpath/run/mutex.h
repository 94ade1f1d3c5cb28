// Mutex, MutexLock, CondVar: std's, with the annotations that let clang prove their use; and a
// mutex that is fair.
//
// For the control plane only; the data path takes no lock.
//
//   class Table {
//     Mutex mutex_;
//     std::vector<Row> rows_ TOWPATH_GUARDED_BY(mutex_);
//   };
//   MutexLock lock(mutex_);
//   while (rows_.empty()) changed_.wait(mutex_);   // the loop stands in the caller, where clang
//                                                  // sees that the lock is held
// Thread: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include <towpath/run/deadline.h>

// Words that clang's -Wthread-safety understands, and other compilers skip: they say which mutex
// guards what, and the compiler proves it. clang does not take libstdc++'s std::mutex for a
// capability, hence the class below.
#if defined(__clang__)
#define TOWPATH_THREAD_ANNOTATION_(x) __attribute__((x))
#else
#define TOWPATH_THREAD_ANNOTATION_(x)
#endif

/// A class that can be held, and one that holds another for a scope.
#define TOWPATH_CAPABILITY(name) TOWPATH_THREAD_ANNOTATION_(capability(name))
#define TOWPATH_SCOPED_CAPABILITY TOWPATH_THREAD_ANNOTATION_(scoped_lockable)

/// Of data: may be touched (pointed to) only while the mutex is held.
#define TOWPATH_GUARDED_BY(mutex) TOWPATH_THREAD_ANNOTATION_(guarded_by(mutex))
#define TOWPATH_PT_GUARDED_BY(mutex) TOWPATH_THREAD_ANNOTATION_(pt_guarded_by(mutex))

/// Of functions: the caller holds it; the caller must not hold it.
#define TOWPATH_REQUIRES(...) TOWPATH_THREAD_ANNOTATION_(requires_capability(__VA_ARGS__))
#define TOWPATH_EXCLUDES(...) TOWPATH_THREAD_ANNOTATION_(locks_excluded(__VA_ARGS__))

/// Of functions: takes it, takes it if the result says so, gives it back.
#define TOWPATH_ACQUIRE(...) TOWPATH_THREAD_ANNOTATION_(acquire_capability(__VA_ARGS__))
#define TOWPATH_TRY_ACQUIRE(...) TOWPATH_THREAD_ANNOTATION_(try_acquire_capability(__VA_ARGS__))
#define TOWPATH_RELEASE(...) TOWPATH_THREAD_ANNOTATION_(release_capability(__VA_ARGS__))

/// Of mutexes: the order in which two are taken.
#define TOWPATH_ACQUIRED_BEFORE(...) TOWPATH_THREAD_ANNOTATION_(acquired_before(__VA_ARGS__))
#define TOWPATH_ACQUIRED_AFTER(...) TOWPATH_THREAD_ANNOTATION_(acquired_after(__VA_ARGS__))

/// Of functions that the analysis cannot follow; say why beside each use.
#define TOWPATH_NO_THREAD_SAFETY_ANALYSIS TOWPATH_THREAD_ANNOTATION_(no_thread_safety_analysis)

namespace towpath::run {

class TOWPATH_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() TOWPATH_ACQUIRE() { mutex_.lock(); }
  bool try_lock() TOWPATH_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() TOWPATH_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a mutex for a scope.
template <class Lockable>
class TOWPATH_SCOPED_CAPABILITY LockOf {
 public:
  explicit LockOf(Lockable& mutex) TOWPATH_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~LockOf() TOWPATH_RELEASE() { mutex_.unlock(); }
  LockOf(const LockOf&) = delete;
  LockOf& operator=(const LockOf&) = delete;

 private:
  Lockable& mutex_;
};
using MutexLock = LockOf<Mutex>;

/// The same of one that is held already, as by try_lock().
class TOWPATH_SCOPED_CAPABILITY HeldLock {
 public:
  explicit HeldLock(Mutex& mutex) TOWPATH_REQUIRES(mutex) : mutex_(mutex) {}
  ~HeldLock() TOWPATH_RELEASE() { mutex_.unlock(); }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

 private:
  Mutex& mutex_;
};

/// A ticket lock: threads have it in the order in which they asked, so that one which takes it
/// again and again lets the others in. It costs a sleep more than Mutex where two want it, and
/// outlives every unlock() of it.
class TOWPATH_CAPABILITY("mutex") FairMutex {
 public:
  FairMutex() = default;
  FairMutex(const FairMutex&) = delete;
  FairMutex& operator=(const FairMutex&) = delete;

  void lock() noexcept TOWPATH_ACQUIRE();
  void unlock() noexcept TOWPATH_RELEASE();

 private:
  std::atomic<std::uint32_t> next_{0};  // ticket
  std::atomic<std::uint32_t> now_{0};   // whose turn it is
};

using FairLock = LockOf<FairMutex>;

class CondVar {
 public:
  /// Gives the mutex back, sleeps, takes it again. May wake for no reason: loop.
  void wait(Mutex& mutex) TOWPATH_REQUIRES(mutex);
  /// The same with an end, on SystemClock's time. False: the deadline has passed.
  bool wait_until(Mutex& mutex, Deadline deadline) TOWPATH_REQUIRES(mutex);
  /// The same after so much of real time, for those whose clock is another. Duration::max():
  /// without an end. False: it has passed.
  bool wait_for(Mutex& mutex, Duration time) TOWPATH_REQUIRES(mutex);
  void wake_one() noexcept { condition_.notify_one(); }
  void wake_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace towpath::run
