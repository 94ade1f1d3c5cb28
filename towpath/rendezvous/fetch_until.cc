#include <algorithm>
#include <optional>

#include <towpath/core/format.h>
#include <towpath/rendezvous/fetch_until.h>
#include <towpath/run/poller.h>

namespace towpath::rendezvous {

namespace {

constexpr Duration kPause = std::chrono::milliseconds(10);

bool may_come_yet(Code code) { return code == Code::not_found || code == Code::unavailable; }

}  // namespace

Result<Bytes> fetch_until(Rendezvous& rendezvous, const MetadataName& name, run::Deadline deadline,
                          const Clock& clock) {
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(poller.add(rendezvous.wait_fd(), 0));
  Status last;
  while (true) {
    std::optional<Result<Bytes>> answer;
    TOWPATH_TRY(const FetchId id, rendezvous.fetch(name, deadline, [&](Result<Bytes> metadata) {
      answer = std::move(metadata);
    }));
    while (!answer && !deadline.expired(clock)) {
      (void)poller.wait(std::min(kPause, deadline.remaining(clock)));
      rendezvous.progress();
    }
    rendezvous.cancel(id);  // its callback must not outlive `answer`
    if (answer && (answer->ok() || !may_come_yet(answer->code()))) return *std::move(answer);
    if (answer) last = answer->status();
    if (deadline.expired(clock)) break;
    (void)poller.wait(std::min(kPause, deadline.remaining(clock)));
  }
  // Who gave the last answer knows what helps: an etcd that is away wants another hint than an
  // agent that is not there.
  const std::string_view known = last.hint();
  Status late = error(Code::timed_out, cat("no metadata of ", to_string(name), " by the deadline"),
                      std::string(known.empty() ? "start that agent, or wait longer" : known));
  return last.ok() ? late : std::move(late).because(last);
}

}  // namespace towpath::rendezvous
