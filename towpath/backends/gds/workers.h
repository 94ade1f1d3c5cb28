// Workers: a few threads that move bytes with libcufile, whose calls block.
//
// Each takes what waits: one job, or with batches several of one GPU. What runs cannot be
// cancelled. Thread: as engine.h; its own threads share the queue only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <towpath/backends/gds/counters.h>
#include <towpath/backends/gds/engine.h>
#include <towpath/run/mutex.h>
#include <towpath/run/waker.h>
#include <towpath/run/worker.h>

namespace towpath::backends::gds {

/// One call; its GPU must be current.
std::int32_t call(const CuFile& cufile, const Job& job, Counters& counters);

/// Does jobs of one GPU, which is current, as one batch; what a batch leaves undone is done by
/// call(). One per thread.
class Batch {
 public:
  Batch(const CuFile& cufile, unsigned entries) : cufile_(cufile), entries_(entries) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() { close(); }

  /// Fills `done`, which is as long as `jobs`; at most `entries` of them.
  void perform(std::span<const Job> jobs, std::span<Done> done, Counters& counters);

 private:
  bool open();
  void close();
  bool collect(std::span<const Job> jobs, std::span<Done> done);

  const CuFile& cufile_;
  const unsigned entries_;
  cufile::BatchHandle handle_ = nullptr;
  std::vector<cufile::BatchEntry> submitted_;
  std::vector<cufile::BatchEvent> events_;
};

class Workers final : public Engine {
 public:
  struct Options {
    std::uint32_t threads = 8;
    std::uint32_t depth = 64;  ///< jobs at a time
    std::uint32_t batch = 1;   ///< jobs of one call; 1: no batches
  };
  /// Errors: exhausted. All outlive it.
  static Result<std::unique_ptr<Workers>> open(const Options& options, const CuFile& cufile,
                                               Counters& counters);
  /// Ends the threads; what waits is dropped, what runs is waited for.
  ~Workers() override;

  std::string describe() const override;
  Status submit(const Job& job) override {
    fresh_.push_back(job);
    return {};
  }
  bool flush() override;
  void cancel(std::uint64_t id) override;
  std::size_t reap(std::span<Done> into) override;
  int wait_fd() const override { return waker_->fd(); }
  void clear_wait_fd() override { waker_->clear(); }

 private:
  Workers(const Options& options, const CuFile& cufile, Counters& counters,
          std::unique_ptr<run::Waker> waker);
  void serve();
  std::size_t take(std::span<Job> into) TOWPATH_REQUIRES(mutex_);
  void perform(std::span<const Job> jobs, std::span<Done> done, Batch& batch) const;

  const Options options_;
  const CuFile& cufile_;
  Counters& counters_;
  std::unique_ptr<run::Waker> waker_;
  std::vector<Job> fresh_;  // submitted, not flushed

  run::Mutex mutex_;
  run::CondVar has_work_;
  std::vector<Job> waiting_ TOWPATH_GUARDED_BY(mutex_);
  std::vector<Done> done_ TOWPATH_GUARDED_BY(mutex_);
  bool ending_ TOWPATH_GUARDED_BY(mutex_) = false;

  std::vector<run::Worker> threads_;  // last: they end before what they use
};

}  // namespace towpath::backends::gds
