#include <algorithm>
#include <cerrno>

#include <towpath/backends/gds/workers.h>

namespace towpath::backends::gds {

std::int32_t call(const CuFile& cufile, const Job& job, Counters& counters) {
  const auto size = static_cast<std::size_t>(job.length);
  const auto place = static_cast<off_t>(job.file_offset);
  const auto offset = static_cast<off_t>(job.memory_offset);
  void* const base = job.memory->base();
  counters.calls.add();
  return CuFile::result_of(job.write
                               ? cufile.call().write(job.file->handle(), base, size, place, offset)
                               : cufile.call().read(job.file->handle(), base, size, place, offset));
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

bool Workers::flush() {
  if (fresh_.empty()) return true;
  const run::MutexLock lock(mutex_);
  waiting_.insert(waiting_.end(), fresh_.begin(), fresh_.end());
  fresh_.size() == 1 ? has_work_.wake_one() : has_work_.wake_all();
  fresh_.clear();
  return true;
}

void Workers::cancel(std::uint64_t id) {
  const auto has_id = [id](const Job& job) { return job.id == id; };
  const run::MutexLock lock(mutex_);
  if (std::erase_if(fresh_, has_id) + std::erase_if(waiting_, has_id) == 0) return;
  done_.push_back({id, -ECANCELED});
  waker_->wake();
}

std::size_t Workers::reap(std::span<Done> into) {
  const run::MutexLock lock(mutex_);
  const std::size_t count = std::min(into.size(), done_.size());
  std::copy_n(done_.begin(), count, into.begin());
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
    done_.insert(done_.end(), done.begin(), done.begin() + static_cast<std::ptrdiff_t>(count));
    waker_->wake();
  }
  mutex_.unlock();
}

void Workers::perform(std::span<const Job> jobs, std::span<Done> done, Batch& batch) const {
  const auto current = jobs.front().memory->device().make_current();
  for (std::size_t i = 0; i < jobs.size(); ++i) done[i] = {jobs[i].id, -cufile::kContextMismatch};
  if (!current.ok()) return;
  if (jobs.size() > 1) return batch.perform(jobs, done, counters_);
  done.front().result = call(cufile_, jobs.front(), counters_);
}

}  // namespace towpath::backends::gds
