#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <sys/uio.h>

#include <towpath/backends/posix/thread_engine.h>
#include <towpath/core/text.h>

namespace towpath::backends::posix {
namespace {

constexpr std::uint32_t kMaxThreads = 8;

static_assert(sizeof(sys::IoPart) == sizeof(iovec) && offsetof(iovec, iov_base) == 0 &&
              offsetof(sys::IoPart, size_bytes) == offsetof(iovec, iov_len));

Done perform(const Io& io) noexcept {
  const auto* vectors = reinterpret_cast<const iovec*>(io.parts.data());
  const int count = static_cast<int>(io.parts.size());
  const auto offset = static_cast<off_t>(io.offset);
  const ssize_t moved = io.write ? ::pwritev(io.file.fd, vectors, count, offset)
                                 : ::preadv(io.file.fd, vectors, count, offset);
  return {io.id, static_cast<std::int32_t>(moved < 0 ? -errno : moved)};
}

Status no_table() {
  return error(Code::unsupported, "threads have no table of files or buffers to register in");
}

}  // namespace

Result<std::unique_ptr<ThreadEngine>> ThreadEngine::open(std::uint32_t depth) {
  TOWPATH_TRY(auto waker, run::Waker::open());
  std::unique_ptr<ThreadEngine> engine(new ThreadEngine(std::move(waker), depth));
  for (std::uint32_t i = 0; i < std::min(depth, kMaxThreads); ++i) {
    TOWPATH_TRY(run::Worker worker,
                run::Worker::start(cat("towpath-disk-", i),
                                   [&self = *engine](const run::StopToken&) { self.serve(); }));
    engine->workers_.push_back(std::move(worker));
  }
  return engine;
}

ThreadEngine::ThreadEngine(std::unique_ptr<run::Waker> waker, std::uint32_t depth)
    : waker_(std::move(waker)) {
  batch_.reserve(depth);
  waiting_.reserve(depth);
  done_.reserve(depth);
}

ThreadEngine::~ThreadEngine() {
  const run::MutexLock lock(mutex_);
  ending_ = true;
  taken_ = waiting_.size();
  has_work_.wake_all();
}

std::string ThreadEngine::describe() const {
  return cat("preadv and pwritev by ", workers_.size(), " threads");
}

Result<int> ThreadEngine::add_file(int) { return no_table(); }
Result<int> ThreadEngine::add_buffer(ByteSpan) { return no_table(); }

void ThreadEngine::submit(const Io& io) { batch_.push_back(io); }

bool ThreadEngine::flush() {
  const run::MutexLock lock(mutex_);
  drop_taken();
  waiting_.insert(waiting_.end(), batch_.begin(), batch_.end());
  batch_.size() == 1 ? has_work_.wake_one() : has_work_.wake_all();
  batch_.clear();
  return true;
}

void ThreadEngine::cancel(std::uint64_t id) {
  const auto has_id = [id](const Io& io) { return io.id == id; };
  const run::MutexLock lock(mutex_);
  drop_taken();
  const std::size_t removed = std::erase_if(batch_, has_id) + std::erase_if(waiting_, has_id);
  if (removed == 0) return;
  done_.push_back({id, -ECANCELED});
  waker_->wake();
}

void ThreadEngine::drop_taken() {
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
}

std::size_t ThreadEngine::reap(std::span<Done> into) {
  const run::MutexLock lock(mutex_);
  const std::size_t count = std::min(into.size(), done_.size());
  std::copy_n(done_.begin(), count, into.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void ThreadEngine::serve() {
  mutex_.lock();
  while (true) {
    while (taken_ == waiting_.size() && !ending_) has_work_.wait(mutex_);
    if (ending_) break;
    const Io io = waiting_[taken_++];
    mutex_.unlock();
    const Done done = perform(io);
    mutex_.lock();
    done_.push_back(done);
    waker_->wake();
  }
  mutex_.unlock();
}

}  // namespace towpath::backends::posix
