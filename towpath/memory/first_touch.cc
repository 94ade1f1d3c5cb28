#include <algorithm>
#include <atomic>
#include <vector>

#include <towpath/core/text.h>
#include <towpath/memory/first_touch.h>
#include <towpath/run/deadline.h>
#include <towpath/run/mutex.h>
#include <towpath/run/thread_annotations.h>
#include <towpath/run/worker.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/numa.h>
#include <towpath/sys/numa_placement.h>

namespace towpath::memory {
namespace {

constexpr std::uint64_t kStretch = 32ull << 20;
constexpr unsigned kMostThreads = 16;  // twice as many gain a tenth

/// One touching of one stretch of memory by several threads, each taking what is next.
class Touching {
 public:
  Touching(ByteSpan bytes, const Clock& clock, run::Deadline deadline, const FirstTouch& options)
      : bytes_(bytes), clock_(clock), deadline_(deadline), options_(options) {}

  void work() {
    if (options_.node) note(sys::run_on_node(*options_.node, options_.sys));
    while (true) {
      // Relaxed: a claim; what is touched is seen after the threads are joined.
      const std::uint64_t begin = next_.fetch_add(kStretch, std::memory_order_relaxed);
      if (begin >= bytes_.size() || failed_.load(std::memory_order_relaxed)) return;
      const Status status = touch(bytes_.subspan(begin, std::min(kStretch, bytes_.size() - begin)));
      if (!status.ok()) return fail(status);
      if (deadline_.expired(clock_)) return fail(too_late(begin));
    }
  }
  Status status() {
    const run::MutexLock lock(mutex_);
    return status_;
  }
  std::string note() {
    const run::MutexLock lock(mutex_);
    return note_;
  }

 private:
  static Status touch(ByteSpan bytes) {
    Status status = sys::populate(bytes);
    if (status.code() != Code::unsupported) return status;
    for (std::uint64_t at = 0; at < bytes.size(); at += sys::page_size()) {
      // Adding nothing writes the page and changes no byte, whoever else writes it.
      reinterpret_cast<std::atomic<unsigned char>*>(bytes.data() + at)
          ->fetch_add(0, std::memory_order_relaxed);
    }
    return {};
  }
  Status too_late(std::uint64_t at) const {
    if (next_.load(std::memory_order_relaxed) >= bytes_.size()) return {};
    return error(Code::timed_out,
                 cat("touching ", format_bytes(bytes_.size()), " took too long; it came to ",
                     format_bytes(at)),
                 "give it more time, or ask for less");
  }
  void fail(const Status& status) {
    if (status.ok()) return;
    failed_.store(true, std::memory_order_relaxed);
    const run::MutexLock lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  void note(const Status& status) {
    if (status.ok()) return;
    const run::MutexLock lock(mutex_);
    note_ = std::string(status.message());
  }

  const ByteSpan bytes_;
  const Clock& clock_;
  const run::Deadline deadline_;
  const FirstTouch& options_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  run::Mutex mutex_;
  Status status_ TOWPATH_GUARDED_BY(mutex_);
  std::string note_ TOWPATH_GUARDED_BY(mutex_);
};

unsigned threads_for(std::uint64_t size_bytes, const FirstTouch& options) {
  std::uint64_t most = options.threads;
  if (most == 0) {
    const auto nodes = sys::numa_nodes(options.sys);
    if (nodes.ok())
      for (const sys::NumaNode& node : *nodes)
        if (!options.node || node.id == *options.node) most += node.cpus.size();
    most = std::clamp<std::uint64_t>(most, 1, kMostThreads);
  }
  const std::uint64_t stretches = size_bytes / kStretch + 1;
  return static_cast<unsigned>(std::min(most, stretches));
}

}  // namespace

Duration touch_timeout(std::uint64_t size_bytes) noexcept {
  const std::uint64_t seconds = std::min<std::uint64_t>(10 + (size_bytes >> 30U), 300);
  return std::chrono::seconds(seconds);
}

Result<Touched> touch_first(ByteSpan bytes, const Clock& clock, const FirstTouch& options) {
  const Duration time = options.timeout.count() > 0 ? options.timeout : touch_timeout(bytes.size());
  Touching touching(bytes, clock, run::Deadline::after(clock, time), options);
  const unsigned threads = threads_for(bytes.size(), options);
  {
    // Never this thread: it keeps its processors.
    std::vector<run::Worker> workers;
    for (unsigned i = 0; i < threads; ++i) {
      auto worker =
          run::Worker::start("first-touch", [&](const run::StopToken&) { touching.work(); });
      if (!worker.ok() && workers.empty()) return worker.status();
      if (!worker.ok()) break;  // those that there are do all of it
      workers.push_back(*std::move(worker));
    }
    for (run::Worker& worker : workers) worker.join();
  }
  TOWPATH_TRY(touching.status());
  return Touched{.threads = threads, .note = touching.note()};
}

}  // namespace towpath::memory
