#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <sys/uio.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/run/thread_file_engine.h>

namespace towpath::run {
namespace {

constexpr std::uint32_t kMaxThreads = 8;

static_assert(sizeof(sys::IoPart) == sizeof(iovec) && offsetof(iovec, iov_base) == 0 &&
              offsetof(sys::IoPart, size_bytes) == offsetof(iovec, iov_len));

sys::IoDone perform(const sys::FileIo& io) noexcept {
  const auto* vectors = reinterpret_cast<const iovec*>(io.parts.data());
  const int count = static_cast<int>(io.parts.size());
  const auto offset = static_cast<off_t>(io.offset);
  ssize_t moved = 0;
  switch (io.kind) {
    case sys::FileIo::Kind::read: moved = ::preadv(io.file.fd, vectors, count, offset); break;
    case sys::FileIo::Kind::write: moved = ::pwritev(io.file.fd, vectors, count, offset); break;
    case sys::FileIo::Kind::sync: moved = ::fdatasync(io.file.fd); break;
  }
  return {io.id, static_cast<std::int32_t>(moved < 0 ? -errno : moved)};
}

Status no_table() {
  return error(Code::unsupported, "threads have no table of files or buffers to register in");
}

}  // namespace

Result<std::unique_ptr<ThreadFileEngine>> ThreadFileEngine::open(std::uint32_t depth) {
  TOWPATH_TRY(auto waker, Waker::open());
  std::unique_ptr<ThreadFileEngine> engine(new ThreadFileEngine(std::move(waker), depth));
  for (std::uint32_t i = 0; i < std::min(depth, kMaxThreads); ++i) {
    TOWPATH_TRY(Worker worker,
                Worker::start(cat("towpath-disk-", i),
                              [&self = *engine](const StopToken&) { self.serve(); }));
    engine->workers_.push_back(std::move(worker));
  }
  return engine;
}

ThreadFileEngine::ThreadFileEngine(std::unique_ptr<Waker> waker, std::uint32_t depth)
    : waker_(std::move(waker)) {
  batch_.reserve(depth);
  waiting_.reserve(depth);
  done_.reserve(depth);
}

ThreadFileEngine::~ThreadFileEngine() {
  const MutexLock lock(mutex_);
  ending_ = true;
  taken_ = waiting_.size();
  has_work_.wake_all();
}

std::string ThreadFileEngine::describe() const {
  return cat("preadv and pwritev by ", workers_.size(), " threads");
}

Result<int> ThreadFileEngine::add_file(int) { return no_table(); }
Result<int> ThreadFileEngine::add_buffer(ByteSpan) { return no_table(); }

void ThreadFileEngine::submit(const sys::FileIo& io) { batch_.push_back(io); }

bool ThreadFileEngine::flush() {
  const MutexLock lock(mutex_);
  drop_taken();
  waiting_.insert(waiting_.end(), batch_.begin(), batch_.end());
  batch_.size() == 1 ? has_work_.wake_one() : has_work_.wake_all();
  batch_.clear();
  return true;
}

void ThreadFileEngine::cancel(std::uint64_t id) {
  const auto has_id = [id](const sys::FileIo& io) { return io.id == id; };
  const MutexLock lock(mutex_);
  drop_taken();
  const std::size_t removed = std::erase_if(batch_, has_id) + std::erase_if(waiting_, has_id);
  if (removed == 0) return;
  done_.push_back({id, -ECANCELED});
  waker_->wake();
}

void ThreadFileEngine::drop_taken() {
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
}

std::size_t ThreadFileEngine::reap(std::span<sys::IoDone> into) {
  const MutexLock lock(mutex_);
  const std::size_t count = std::min(into.size(), done_.size());
  std::copy_n(done_.begin(), count, into.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void ThreadFileEngine::serve() {
  mutex_.lock();
  while (true) {
    while (taken_ == waiting_.size() && !ending_) has_work_.wait(mutex_);
    if (ending_) break;
    const sys::FileIo io = waiting_[taken_++];
    mutex_.unlock();
    const sys::IoDone done = perform(io);
    mutex_.lock();
    done_.push_back(done);
    waker_->wake();
  }
  mutex_.unlock();
}

}  // namespace towpath::run
