// ThreadFileEngine: I/Os by a few threads that call preadv(2), pwritev(2) and
// fdatasync(2), for machines where
// io_uring is forbidden.
//
// It registers nothing. A lock and a wake-up per I/O make it slower for small ones; large ones cost
// the same. What runs cannot be cancelled; what waits for a thread can.
// Thread: one at a time; its own threads share the queue only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <towpath/run/mutex.h>
#include <towpath/run/waker.h>
#include <towpath/run/worker.h>
#include <towpath/sys/file_engine.h>

namespace towpath::run {

class ThreadFileEngine final : public sys::FileEngine {
 public:
  /// `depth`: I/Os at a time; as many threads, but at most 8. Errors: exhausted.
  static Result<std::unique_ptr<ThreadFileEngine>> open(std::uint32_t depth);
  /// Ends the threads; what waits is dropped, what runs is waited for.
  ~ThreadFileEngine() override;

  std::string_view name() const override { return "threads"; }
  std::string describe() const override;
  Result<int> add_file(int fd) override;
  void remove_file(int) override {}
  Result<int> add_buffer(ByteSpan memory) override;
  void remove_buffer(int) override {}
  void submit(const sys::FileIo& io) override;
  bool flush() override;
  void cancel(std::uint64_t id) override;
  std::size_t reap(std::span<sys::IoDone> into) override;
  int wait_fd() const override { return waker_->fd(); }
  void clear_wait_fd() override { waker_->clear(); }
  bool raise_wait_fd() override {
    waker_->wake();
    return true;
  }

 private:
  ThreadFileEngine(std::unique_ptr<Waker> waker, std::uint32_t depth);
  void serve();
  void drop_taken() TOWPATH_REQUIRES(mutex_);

  std::unique_ptr<Waker> waker_;
  std::vector<sys::FileIo> batch_;  // submitted, not flushed

  Mutex mutex_;
  CondVar has_work_;
  // Both have room for depth from the start.
  std::vector<sys::FileIo> waiting_ TOWPATH_GUARDED_BY(mutex_);
  std::size_t taken_ TOWPATH_GUARDED_BY(mutex_) = 0;  // of waiting_, by threads
  std::vector<sys::IoDone> done_ TOWPATH_GUARDED_BY(mutex_);
  bool ending_ TOWPATH_GUARDED_BY(mutex_) = false;

  std::vector<Worker> workers_;  // last: they end before what they use
};

}  // namespace towpath::run
