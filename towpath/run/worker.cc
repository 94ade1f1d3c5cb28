#include <atomic>
#include <csignal>
#include <system_error>
#include <thread>

#include <pthread.h>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/run/futex.h>
#include <towpath/run/waker.h>
#include <towpath/run/worker.h>
#include <towpath/sys/own_process.h>

namespace towpath::run {

struct StopToken::State {
  std::unique_ptr<Waker> waker;
  std::atomic<std::uint32_t> stopped{0};
};

bool StopToken::stop_requested() const noexcept {
  // Acquire: pairs with the release in request_stop(), so its reason is seen by who stops.
  return state_->stopped.load(std::memory_order_acquire) != 0;
}

bool StopToken::wait_until(Deadline deadline) const noexcept {
  while (!stop_requested()) {
    if (futex_wait(state_->stopped, 0, {.deadline = deadline}) == FutexWait::timed_out)
      return stop_requested();
  }
  return true;
}

int StopToken::fd() const noexcept { return state_->waker->fd(); }

struct Worker::Thread {
  std::thread thread;
  sys::OwnProcess process;  ///< whose thread it is
};

namespace {

// Blocks signals for a scope: a thread inherits the mask, and the user's handlers then run on the
// user's threads. Not those that a thread causes itself: blocked, they would kill the process
// without the report of a crash handler or sanitizer.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&all, own);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

void run_named(const std::string& name, const Worker::Function& function,
               const StopToken& token) noexcept {
  // pthread_setname_np refuses longer names.
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  function(token);
}

}  // namespace

Worker::Worker(StopToken token, std::unique_ptr<Thread> thread) noexcept
    : token_(std::move(token)), thread_(std::move(thread)) {}

Result<Worker> Worker::start(const std::string& name, Function function) {
  auto state = std::make_shared<StopToken::State>();
  TOWPATH_TRY(state->waker, Waker::open());
  const StopToken token(std::move(state));
  const SignalsBlocked blocked;
  try {
    auto thread = std::make_unique<Thread>();
    thread->thread =
        std::thread([name, token, run = std::move(function)] { run_named(name, run, token); });
    return Worker(token, std::move(thread));
  } catch (const std::system_error& failure) {
    return error(Code::exhausted,
                 cat("cannot start thread '", printable(name), "': ", failure.what()),
                 "raise the limit of processes (ulimit -u) or of the container's pids");
  }
}

Worker::Worker(Worker&& other) noexcept = default;

Worker& Worker::operator=(Worker&& other) noexcept {
  Worker old(std::move(*this));  // stopped and joined at the end of the scope
  token_ = std::move(other.token_);
  thread_ = std::move(other.thread_);
  return *this;
}

Worker::~Worker() {
  if (thread_ == nullptr) return;
  if (!thread_->process.is_this()) {
    (void)thread_.release();  // a forked child has no such thread: nobody would ever end it
    return;
  }
  request_stop();
  join();
}

void Worker::request_stop() noexcept {
  if (token_.state_ == nullptr) return;
  // Release: pairs with the acquire in stop_requested().
  token_.state_->stopped.store(1, std::memory_order_release);
  futex_wake(token_.state_->stopped, kWakeAll);
  token_.state_->waker->wake();
}

void Worker::join() noexcept {
  if (thread_ == nullptr) return;
  TOWPATH_CHECK(thread_->thread.get_id() != std::this_thread::get_id(),
                "a worker cannot wait for its own end");
  thread_->thread.join();
  thread_.reset();
}

}  // namespace towpath::run
