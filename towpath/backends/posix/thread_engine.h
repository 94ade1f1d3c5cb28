// ThreadEngine: I/Os by a few threads that call preadv(2) and pwritev(2), for machines where
// io_uring is forbidden.
//
// It registers nothing. A lock and a wake-up per I/O make it slower for small ones; large ones cost
// the same. What runs cannot be cancelled; what waits for a thread can.
// Thread: the one that serialises the calls on the backend; its own threads share the queue only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <towpath/backends/posix/engine.h>
#include <towpath/run/mutex.h>
#include <towpath/run/waker.h>
#include <towpath/run/worker.h>

namespace towpath::backends::posix {

class ThreadEngine final : public Engine {
 public:
  /// `depth`: I/Os at a time; as many threads, but at most 8. Errors: exhausted.
  static Result<std::unique_ptr<ThreadEngine>> open(std::uint32_t depth);
  /// Ends the threads; what waits is dropped, what runs is waited for.
  ~ThreadEngine() override;

  std::string_view name() const override { return "threads"; }
  std::string describe() const override;
  Result<int> add_file(int fd) override;
  void remove_file(int) override {}
  Result<int> add_buffer(ByteSpan memory) override;
  void remove_buffer(int) override {}
  void submit(const Io& io) override;
  bool flush() override;
  void cancel(std::uint64_t id) override;
  std::size_t reap(std::span<Done> into) override;
  int wait_fd() const override { return waker_->fd(); }
  void clear_wait_fd() override { waker_->clear(); }
  bool raise_wait_fd() override {
    waker_->wake();
    return true;
  }

 private:
  ThreadEngine(std::unique_ptr<run::Waker> waker, std::uint32_t depth);
  void serve();
  void drop_taken() TOWPATH_REQUIRES(mutex_);

  std::unique_ptr<run::Waker> waker_;
  std::vector<Io> batch_;  // submitted, not flushed

  run::Mutex mutex_;
  run::CondVar has_work_;
  // Both have room for depth from the start.
  std::vector<Io> waiting_ TOWPATH_GUARDED_BY(mutex_);
  std::size_t taken_ TOWPATH_GUARDED_BY(mutex_) = 0;  // of waiting_, by threads
  std::vector<Done> done_ TOWPATH_GUARDED_BY(mutex_);
  bool ending_ TOWPATH_GUARDED_BY(mutex_) = false;

  std::vector<run::Worker> workers_;  // last: they end before what they use
};

}  // namespace towpath::backends::posix
