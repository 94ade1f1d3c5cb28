#include <algorithm>

#include <towpath/backends/gds/workers.h>

namespace towpath::backends::gds {
namespace {

// How long one question for what has ended may wait; then it is asked again.
constexpr timespec kTimeout{.tv_sec = 1, .tv_nsec = 0};
// Questions without an answer before a batch is given up: the driver's own limit is shorter.
constexpr int kMaxQuestions = 60;

cufile::BatchEntry entry_of(const Job& job, Done* cookie) {
  return {.base = job.memory->base(),
          .file_offset = static_cast<off_t>(job.file_offset),
          .base_offset = static_cast<off_t>(job.memory_offset),
          .size = static_cast<std::size_t>(job.length),
          .file = job.file->handle(),
          .is_write = job.write ? 1 : 0,
          .cookie = cookie};
}

}  // namespace

bool Batch::open() {
  if (handle_ != nullptr) return true;
  submitted_.reserve(entries_);
  events_.resize(entries_);
  return cufile_.call().batch_set_up(&handle_, entries_).code == 0;
}

void Batch::close() {
  if (handle_ != nullptr) cufile_.call().batch_destroy(handle_);
  handle_ = nullptr;
}

// What the library says of an entry is believed only when it ended well; any other is done again by
// itself, which also names the error.
void Batch::perform(std::span<const Job> jobs, std::span<Done> done, Counters& counters) {
  for (Done& one : done) one.result = -1;
  if (open()) {
    submitted_.clear();
    for (std::size_t i = 0; i < jobs.size(); ++i) submitted_.push_back(entry_of(jobs[i], &done[i]));
    const auto count = static_cast<unsigned>(jobs.size());
    const bool taken = cufile_.call().batch_submit(handle_, count, submitted_.data(), 0).code == 0;
    if (taken) counters.batched.add();
    if (!taken || !collect(jobs, done)) close();
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (done[i].result < 0) done[i].result = call(cufile_, jobs[i], counters);
  }
}

/// False: the batch cannot be used again.
bool Batch::collect(std::span<const Job> jobs, std::span<Done> done) {
  std::size_t ended = 0;
  for (int questions = 0; ended < jobs.size() && questions < kMaxQuestions; ++questions) {
    auto count = static_cast<unsigned>(jobs.size() - ended);
    timespec timeout = kTimeout;
    if (cufile_.call().batch_status(handle_, 1, &count, events_.data(), &timeout).code != 0) break;
    for (const cufile::BatchEvent& event : std::span(events_).first(count)) {
      auto* const one = static_cast<Done*>(event.cookie);
      if (one < done.data() || one >= done.data() + done.size()) continue;
      if (event.status == cufile::kBatchComplete)
        one->result = CuFile::result_of(static_cast<ssize_t>(event.moved));
      ++ended;
    }
    if (count != 0) questions = 0;
  }
  if (ended == jobs.size()) return true;
  (void)cufile_.call().batch_cancel(handle_);
  return false;
}

}  // namespace towpath::backends::gds
