#include <algorithm>
#include <numeric>

#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/core/format.h>

namespace towpath::blockcopy {

std::size_t TransferJobs::under_way() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(jobs_, [](const TransferJob& job) { return !job.ended(); }));
}

std::size_t TransferJobs::first_lost() const {
  const auto lost = std::ranges::find_if(jobs_, [](const TransferJob& job) {
    return job.outcome() != Outcome::none && job.outcome() != Outcome::done;
  });
  return static_cast<std::size_t>(lost - jobs_.begin());
}

Outcome TransferJobs::outcome() const {
  if (!ended()) return Outcome::none;
  return is_lost() ? jobs_[first_lost()].outcome() : Outcome::done;
}

Status TransferJobs::status() const {
  if (!is_lost()) return {};
  const std::size_t lost = first_lost();
  const Status why = jobs_[lost].status();
  return error(why.code(),
               cat("copy ", lost, " of ", jobs_.size(), " ", name_of(jobs_[lost].outcome())),
               std::string(why.hint()))
      .because(why);
}

std::uint64_t TransferJobs::bytes_in_place() const {
  return std::accumulate(
      jobs_.begin(), jobs_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const TransferJob& job) { return sum + job.bytes_in_place(); });
}

Outcome TransferJobs::wait(Duration timeout) {
  if (ended()) return outcome();  // there may be no manager any more
  const Instant end = manager_->clock().now() + timeout;
  for (Instant now = manager_->clock().now(); !ended() && now < end; now = manager_->clock().now())
    if (!manager_->progress() && !ended()) manager_->wait_for_work(end - now);
  return outcome();
}

void TransferJobs::cancel() {
  for (TransferJob& job : jobs_) job.cancel();
}

}  // namespace towpath::blockcopy
