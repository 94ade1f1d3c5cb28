#include "tools/replay/meeting.h"

#include <towpath/core/text.h>
#include <towpath/rendezvous/fetch_until.h>
#include <towpath/standard/rendezvous_url.h>

namespace towpath::tools::replay {
namespace {

// How long to look away from the rendezvous, and from whether the other side lives.
constexpr Duration kNap = std::chrono::milliseconds(20);
constexpr Duration kAskAgain = std::chrono::milliseconds(200);

}  // namespace

Result<std::unique_ptr<Meeting>> Meeting::open(const Options& options, agent::Agent& agent,
                                               const Clock& clock) {
  TOWPATH_TRY(auto made, standard::open_rendezvous(options.rendezvous, clock));
  TOWPATH_TRY(const Bytes card, agent.card());
  TOWPATH_TRY(made->publish(cat(options.run, "/", agent.name()), card));
  return std::unique_ptr<Meeting>(new Meeting(options, std::move(made), agent, clock));
}

Status Meeting::meet(const std::string& other, Duration timeout, const Alive& lives) {
  const run::Deadline deadline = run::Deadline::after(clock_, timeout);
  while (true) {
    const run::Deadline soon = run::Deadline::after(clock_, kAskAgain);
    const auto card = rendezvous::fetch_until(*rendezvous_, cat(run_, "/", other),
                                              run::Deadline::earlier(soon, deadline), clock_);
    if (card.ok()) return agent_.load_card(*card).status();
    if (card.code() != Code::timed_out) return card.status();
    TOWPATH_TRY(lives());
    // While it starts it may not listen yet, or listen and be too busy to answer.
    if (deadline.expired(clock_)) return card.status();
  }
}

Result<Message> Meeting::next_message(const std::string& other, Duration timeout) {
  const run::Deadline deadline = run::Deadline::after(clock_, timeout);
  while (taken_ == waiting_.size()) {
    if (deadline.expired(clock_)) {
      return error(Code::timed_out,
                   cat(other, " said nothing for ", timeout / std::chrono::milliseconds(1), " ms"),
                   "look at the other process: it may be stopped or overloaded");
    }
    rendezvous_->progress();
    taken_ = 0;
    waiting_ = agent_.wait_notifications(kNap);
    if (waiting_.empty()) TOWPATH_TRY(check_alive(agent_, other));
  }
  return decode(waiting_[taken_++].message);
}

Status check_alive(agent::Agent& agent, const std::string& other) {
  TOWPATH_TRY(const agent::PeerInfo peer, agent.peer(other));
  if (!peer.lost) return {};
  return error(Code::peer_lost, cat("the ", other, " process is gone"),
               "look at its last words above, or at why it was killed")
      .because(peer.lost_why);
}

Status send(agent::Agent& agent, const std::string& other, const Message& message) {
  TOWPATH_TRY(const Bytes bytes, encode(message));
  return agent.notify(other, bytes);
}

}  // namespace towpath::tools::replay
