// OpenPartner: the other side of a measurement, brought to life where the options want it: a child
// process, a thread of this one, a process that listens elsewhere, or nobody.
// Thread: the one that opened it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include <towpath/run/worker.h>
#include <towpath/standard/standard.h>

#include "tools/bench/meeting.h"
#include "tools/bench/options.h"
#include "tools/bench/target.h"
#include "tools/child.h"

namespace towpath::tools::bench {

class OpenPartner {
 public:
  /// Meets the target, unless the partner is oneself. `node` must outlive it; so must `machine`,
  /// which an agent of the same process shares.
  static Result<std::unique_ptr<OpenPartner>> open(const Options& options, const Machine& machine,
                                                   standard::Node& node);
  ~OpenPartner();
  OpenPartner(const OpenPartner&) = delete;
  OpenPartner& operator=(const OpenPartner&) = delete;

  /// Null when the partner is oneself.
  Meeting* meeting() noexcept { return meeting_.get(); }
  const std::string& what() const noexcept { return what_; }

 private:
  OpenPartner() = default;
  Status start(const Options& options, const Machine& machine);
  Status lives();

  std::string what_ = "no other process";
  std::unique_ptr<Meeting> meeting_;
  std::unique_ptr<Target> target_;
  Status served_;
  std::atomic<bool> serves_{true};  // false: the target's thread is done
  std::optional<Child> child_;
  std::optional<run::Worker> worker_;  // dies first: it serves the target
};

/// Where the other side is, by what the options say.
Partner partner_of(const Options& options);
/// What the child must be given; the rest is the initiator's business.
std::vector<std::string> child_arguments(const Options& options);

}  // namespace towpath::tools::bench
