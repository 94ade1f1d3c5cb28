#include <algorithm>
#include <cerrno>

#include <towpath/backends/gds/workers.h>

namespace towpath::backends::gds {
namespace {

// Without a byte of progress. More than any signal storm; few enough to end soon.
constexpr int kMaxRetries = 64;

std::string described(const Job& job, std::uint64_t already) {
  return cat(job.write ? "the write of " : "the read of ", job.length - already,
             " bytes at offset ", job.file_offset + already, " of ", job.file->name());
}

Status nothing_moved(const Job& job, std::uint64_t already) {
  if (job.write) return error(Code::io_error, cat(described(job, already), " moved nothing"));
  return error(Code::out_of_range, cat(described(job, already), ": the file ends before"),
               "the file was never that long, or was cut: write it before reading");
}

}  // namespace

Moved move_all(const CuFile& cufile, const Job& job, std::uint64_t already, Counters& counters) {
  const cufile::Functions& call = cufile.call();
  Moved all{.bytes = already, .status = {}};
  for (int tries = 0; all.bytes < job.length;) {
    const auto size = static_cast<std::size_t>(job.length - all.bytes);
    const auto place = static_cast<off_t>(job.file_offset + all.bytes);
    const auto offset = static_cast<off_t>(job.memory_offset + all.bytes);
    void* const base = job.memory->base();
    counters.calls.add();
    const ssize_t answer = job.write ? call.write(job.file->handle(), base, size, place, offset)
                                     : call.read(job.file->handle(), base, size, place, offset);
    const bool interrupted = answer == -1 && (errno == EINTR || errno == EAGAIN);
    if (interrupted && ++tries < kMaxRetries) continue;
    const Moved moved = cufile.moved(answer, answer < 0 ? described(job, all.bytes) : "");
    all.status = moved.status;
    if (all.status.ok() && moved.bytes == 0) all.status = nothing_moved(job, all.bytes);
    if (all.status.ok() && moved.bytes > size)
      all.status = error(Code::internal,
                         cat(described(job, all.bytes), " is said to have moved ", moved.bytes));
    if (!all.status.ok()) break;
    all.bytes += moved.bytes;
    if (all.bytes < job.length) counters.short_continuations.add();
  }
  return all;
}

Result<std::unique_ptr<Workers>> Workers::open(const Options& options, const CuFile& cufile,
                                               Counters& counters) {
  TOWPATH_TRY(auto waker, run::Waker::open());
  std::unique_ptr<Workers> workers(new Workers(options, cufile, counters, std::move(waker)));
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    TOWPATH_TRY(run::Worker thread,
                run::Worker::start(cat("towpath-gds-", i),
                                   [&self = *workers](const run::StopToken&) { self.serve(); }));
    workers->threads_.push_back(std::move(thread));
  }
  return workers;
}

Workers::Workers(const Options& options, const CuFile& cufile, Counters& counters,
                 std::unique_ptr<run::Waker> waker)
    : options_(options), cufile_(cufile), counters_(counters), waker_(std::move(waker)) {
  fresh_.reserve(options.depth);
  waiting_.reserve(options.depth);
  done_.reserve(options.depth);
}

Workers::~Workers() {
  const run::MutexLock lock(mutex_);
  ending_ = true;
  waiting_.clear();
  has_work_.wake_all();
}

std::string Workers::describe() const {
  return options_.batch > 1
             ? cat("batches of up to ", options_.batch, " by ", options_.threads, " threads")
             : cat(options_.threads, " threads");
}

void Workers::submit(const Job& job) { fresh_.push_back(job); }

void Workers::flush() {
  if (fresh_.empty()) return;
  const run::MutexLock lock(mutex_);
  waiting_.insert(waiting_.end(), fresh_.begin(), fresh_.end());
  fresh_.size() == 1 ? has_work_.wake_one() : has_work_.wake_all();
  fresh_.clear();
}

void Workers::cancel(std::uint64_t id) {
  const auto has_id = [id](const Job& job) { return job.id == id; };
  const run::MutexLock lock(mutex_);
  if (std::erase_if(fresh_, has_id) + std::erase_if(waiting_, has_id) == 0) return;
  done_.push_back({id, {.status = error(Code::cancelled, "taken back before it began")}});
  waker_->wake();
}

std::size_t Workers::reap(std::span<Done> into) {
  const run::MutexLock lock(mutex_);
  const std::size_t count = std::min(into.size(), done_.size());
  std::move(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count), into.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

/// The first that waits, and those behind it that are for the same GPU.
std::size_t Workers::take(std::span<Job> into) {
  std::size_t count = 0;
  while (count < waiting_.size() && count < into.size() &&
         &waiting_[count].memory->device() == &waiting_.front().memory->device()) {
    into[count] = waiting_[count];
    ++count;
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void Workers::serve() {
  std::vector<Job> jobs(options_.batch);
  std::vector<Done> done(options_.batch);
  Batch batch(cufile_, options_.batch);
  mutex_.lock();
  while (true) {
    while (waiting_.empty() && !ending_) has_work_.wait(mutex_);
    if (ending_) break;
    const std::size_t count = take(jobs);
    mutex_.unlock();
    perform(std::span(jobs).first(count), std::span(done).first(count), batch);
    mutex_.lock();
    for (std::size_t i = 0; i < count; ++i) done_.push_back(std::move(done[i]));
    waker_->wake();
  }
  mutex_.unlock();
}

void Workers::perform(std::span<const Job> jobs, std::span<Done> done, Batch& batch) const {
  const auto current = jobs.front().memory->device().make_current();
  for (std::size_t i = 0; i < jobs.size(); ++i)
    done[i] = {jobs[i].id, {.bytes = 0, .status = current.status()}};
  if (!current.ok()) return;
  if (jobs.size() > 1) return batch.perform(jobs, done, counters_);
  done.front().moved = move_all(cufile_, jobs.front(), 0, counters_);
}

}  // namespace towpath::backends::gds
