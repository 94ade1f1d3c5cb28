// TransferJobs: many copies of one manager, waited for as one: the ranks of a request, the groups
// of a hybrid model's layers, a prompt's blocks from several tiers.
//
// They have ended when each of them has, so that no byte of any of them moves any more; not when
// the first has failed. Whoever wants no more of the others then cancels them. Dropping it cancels,
// as dropping a TransferJob does. Thread: loop.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include <towpath/blockcopy/transfer_manager.h>

namespace towpath::blockcopy {

class TransferJobs {
 public:
  /// `manager`, which outlives all that has not ended, made the jobs.
  explicit TransferJobs(TransferManager& manager) : manager_(&manager) {}

  void add(TransferJob job) { jobs_.push_back(std::move(job)); }
  /// In the order in which they were added.
  std::span<const TransferJob> jobs() const noexcept { return jobs_; }

  std::size_t under_way() const;
  bool ended() const { return under_way() == 0; }
  /// None while something is under way; done where all are, also of none; else that of the first
  /// which ended otherwise.
  Outcome outcome() const;
  /// Whether one is known not to end as done, before the others have ended.
  bool is_lost() const { return first_lost() != jobs_.size(); }
  /// Of the first that did not end as done: which it is, and why.
  Status status() const;
  std::uint64_t bytes_in_place() const;

  /// Makes progress until all have ended, or `timeout` has passed; the outcome, or none.
  Outcome wait(Duration timeout = Duration::max());
  void cancel();

 private:
  /// jobs_.size(): there is none.
  std::size_t first_lost() const;

  TransferManager* manager_;
  std::vector<TransferJob> jobs_;
};

}  // namespace towpath::blockcopy
