// Worker: a named thread that runs one function until it is asked to stop, and is joined.
//
// The only place in the library where a thread is made. The function gets a StopToken and returns
// soon after it says stop; the token can be asked, waited on, or watched by a poller.
// Invariants: signals of the process are never handled on a worker; nothing is detached.
// Thread: as each member says.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <towpath/core/result.h>
#include <towpath/run/deadline.h>

namespace towpath::run {

/// Asks a worker's function to come to an end. Thread: any; copies share.
class StopToken {
 public:
  /// Cost: one load.
  bool stop_requested() const noexcept;
  /// Sleeps until stop is asked (true) or `deadline`, on SystemClock, passes (false).
  bool wait_until(Deadline deadline) const noexcept;
  /// Readable once stop is asked: for a poller. Borrowed; lives as long as a copy of the token.
  int fd() const noexcept;

 private:
  friend class Worker;
  struct State;
  explicit StopToken(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class Worker {
 public:
  using Function = std::function<void(const StopToken&)>;

  /// Starts the thread. `name` is what ps(1) and debuggers show; the kernel keeps 15 bytes of it.
  /// `function` must not throw. Errors: exhausted (no thread or descriptor can be made).
  static Result<Worker> start(const std::string& name, Function function);

  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&& other) noexcept;
  /// Asks for the end and waits for it. In a forked child, which has no such thread: nothing.
  ~Worker();

  /// Thread: any. May be repeated.
  void request_stop() noexcept;
  /// Waits for the function's end, without asking for it. Thread: the owner, not the worker itself.
  void join() noexcept;

 private:
  struct Thread;
  Worker(StopToken token, std::unique_ptr<Thread> thread) noexcept;

  StopToken token_;
  std::unique_ptr<Thread> thread_;  // null: moved away or joined
};

}  // namespace towpath::run
