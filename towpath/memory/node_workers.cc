#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/memory/node_workers.h>
#include <towpath/run/deadline.h>
#include <towpath/run/worker.h>
#include <towpath/sys/numa.h>
#include <towpath/sys/numa_placement.h>

namespace towpath::memory {
namespace {

constexpr std::uint64_t kExtent = 32ull << 20;
constexpr unsigned kMostThreads = 16;  // twice as many gain a tenth

/// Memory on its way through the threads of a node, each of which takes the extent that is next.
class Touching {
 public:
  explicit Touching(sys::Mapping memory) : memory_(std::move(memory)) {}

  std::uint64_t extents() const noexcept { return memory_.size() / kExtent + 1; }

  /// By a thread of the node: until nothing is left to take.
  void work(const std::function<Status(ByteSpan)>& touch) {
    for (bool first = true; const auto begin = take(first); first = false) {
      const std::uint64_t length = std::min(kExtent, memory_.size() - *begin);
      end(touch(memory_.bytes().subspan(*begin, length)));
    }
  }
  /// By who asked. Errors: timed_out, those of touching.
  Result<Touched> wait(const Clock& clock, run::Deadline deadline) {
    const run::MutexLock lock(mutex_);
    while (!is_over()) {
      if (deadline.expired(clock)) {
        status_ = too_late();  // nothing is taken any more
        break;
      }
      (void)changed_.wait_for(mutex_, deadline.remaining(clock));
    }
    sys::Mapping memory;
    if (at_work_ == 0) memory = std::move(memory_);  // else those at work are the last to have it
    TOWPATH_TRY(status_);
    return Touched{.memory = std::move(memory), .threads = threads_};
  }

 private:
  std::optional<std::uint64_t> take(bool is_first) {
    const run::MutexLock lock(mutex_);
    if (next_ >= memory_.size() || !status_.ok()) return std::nullopt;
    threads_ += is_first ? 1 : 0;
    ++at_work_;
    return std::exchange(next_, next_ + kExtent);
  }
  void end(Status touched) {
    const run::MutexLock lock(mutex_);
    if (status_.ok()) status_ = std::move(touched);
    --at_work_;
    if (is_over()) changed_.wake_all();
  }
  bool is_over() const TOWPATH_REQUIRES(mutex_) {
    return at_work_ == 0 && (next_ >= memory_.size() || !status_.ok());
  }
  Status too_late() const TOWPATH_REQUIRES(mutex_) {
    const std::uint64_t taken = std::min<std::uint64_t>(next_, memory_.size());
    return error(Code::timed_out,
                 cat("touching ", format_bytes(memory_.size()), " took too long; it came to ",
                     format_bytes(taken), ", and ", at_work_, " threads wait for the kernel"),
                 "give it more time, or ask for less");
  }

  sys::Mapping memory_;  // moved out only while nobody is at work
  run::Mutex mutex_;
  run::CondVar changed_;
  std::uint64_t next_ TOWPATH_GUARDED_BY(mutex_) = 0;
  unsigned at_work_ TOWPATH_GUARDED_BY(mutex_) = 0;
  unsigned threads_ TOWPATH_GUARDED_BY(mutex_) = 0;
  Status status_ TOWPATH_GUARDED_BY(mutex_);
};

unsigned most_threads(std::optional<unsigned> node, const NodeWorkers::Options& options) {
  if (options.threads != 0) return options.threads;
  std::uint64_t most = 0;
  const auto nodes = sys::numa_nodes(options.sys);
  if (nodes.ok())
    for (const sys::NumaNode& each : *nodes)
      if (!node || each.id == *node) most += each.cpus.size();
  return static_cast<unsigned>(std::clamp<std::uint64_t>(most, 1, kMostThreads));
}

}  // namespace

/// The threads of one node, and what waits for them, in its order.
class NodeWorkers::Node {
 public:
  Node(std::optional<unsigned> id, const Options& options)
      : id_(id), options_(options), most_(most_threads(id, options)) {}
  ~Node() {
    {
      const run::MutexLock lock(mutex_);
      ending_ = true;
    }
    has_work_.wake_all();
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Errors: exhausted.
  Status add(const std::shared_ptr<Touching>& touching) {
    {
      const run::MutexLock lock(mutex_);
      TOWPATH_TRY(grow(touching->extents()));
      waiting_.push_back(touching);
    }
    has_work_.wake_all();
    return {};
  }
  std::string note() {
    const run::MutexLock lock(mutex_);
    return note_;
  }

 private:
  /// Up to as many threads as there is use for; one will do.
  Status grow(std::uint64_t useful) TOWPATH_REQUIRES(mutex_) {
    while (threads_.size() < std::min<std::uint64_t>(most_, useful)) {
      auto thread = run::Worker::start(id_ ? cat("numa-", *id_) : std::string("first-touch"),
                                       [this](const run::StopToken&) { serve(); });
      if (!thread.ok()) return threads_.empty() ? thread.status() : Status();
      threads_.push_back(*std::move(thread));
    }
    return {};
  }
  void serve() {
    settle();
    while (const auto touching = next()) {
      touching->work(options_.touch);
      const run::MutexLock lock(mutex_);
      std::erase(waiting_, touching);
    }
  }
  /// Before it touches anything.
  void settle() {
    const Status status = id_ ? sys::run_on_node(*id_, options_.sys) : Status();
    if (status.ok()) return;
    const run::MutexLock lock(mutex_);
    note_ = std::string(status.message());
  }
  std::shared_ptr<Touching> next() {
    const run::MutexLock lock(mutex_);
    while (waiting_.empty() && !ending_) has_work_.wait(mutex_);
    return ending_ ? nullptr : waiting_.front();
  }

  const std::optional<unsigned> id_;
  const Options& options_;
  const unsigned most_;
  run::Mutex mutex_;
  run::CondVar has_work_;
  std::deque<std::shared_ptr<Touching>> waiting_ TOWPATH_GUARDED_BY(mutex_);
  std::string note_ TOWPATH_GUARDED_BY(mutex_);
  bool ending_ TOWPATH_GUARDED_BY(mutex_) = false;
  std::vector<run::Worker> threads_ TOWPATH_GUARDED_BY(mutex_);  // last: they use the others
};

Duration touch_timeout(std::uint64_t size_bytes) noexcept {
  const std::uint64_t seconds = std::min<std::uint64_t>(10 + (size_bytes >> 30U), 300);
  return std::chrono::seconds(seconds);
}

Status touch_pages(ByteSpan bytes) {
  Status status = sys::populate(bytes);
  if (status.code() != Code::unsupported) return status;
  for (std::uint64_t at = 0; at < bytes.size(); at += sys::page_size()) {
    // Adding nothing writes the page and changes no byte, whoever else writes it.
    reinterpret_cast<std::atomic<unsigned char>*>(bytes.data() + at)
        ->fetch_add(0, std::memory_order_relaxed);
  }
  return {};
}

NodeWorkers::NodeWorkers(const Clock& clock, Options options)
    : clock_(clock), options_(std::move(options)) {}

NodeWorkers::~NodeWorkers() = default;

Result<Touched> NodeWorkers::touch(sys::Mapping memory, const FirstTouch& how) {
  const Duration time = how.timeout.count() > 0 ? how.timeout : touch_timeout(memory.size());
  const auto deadline = run::Deadline::after(clock_, time);
  Node& node = node_of(how.node);
  const auto touching = std::make_shared<Touching>(std::move(memory));
  TOWPATH_TRY(node.add(touching));
  TOWPATH_TRY(Touched touched, touching->wait(clock_, deadline));
  touched.note = node.note();
  return touched;
}

NodeWorkers::Node& NodeWorkers::node_of(std::optional<unsigned> id) {
  const run::MutexLock lock(mutex_);
  auto& node = nodes_[id];
  if (node == nullptr) node = std::make_unique<Node>(id, options_);
  return *node;
}

}  // namespace towpath::memory
