// Mutex, MutexLock, CondVar: std's, with the annotations that let clang prove their use.
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

#include <condition_variable>
#include <mutex>

#include <towpath/run/deadline.h>
#include <towpath/run/thread_annotations.h>

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
class TOWPATH_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TOWPATH_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() TOWPATH_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

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

class CondVar {
 public:
  /// Gives the mutex back, sleeps, takes it again. May wake for no reason: loop.
  void wait(Mutex& mutex) TOWPATH_REQUIRES(mutex);
  /// The same with an end, on SystemClock's time. False: the deadline has passed.
  bool wait_until(Mutex& mutex, Deadline deadline) TOWPATH_REQUIRES(mutex);
  /// The same after so much of real time, for those whose clock is another. False: it has passed.
  bool wait_for(Mutex& mutex, Duration time) TOWPATH_REQUIRES(mutex);
  void wake_one() noexcept { condition_.notify_one(); }
  void wake_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace towpath::run
