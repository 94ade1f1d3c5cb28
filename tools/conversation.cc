#include "tools/conversation.h"

#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/rendezvous/fetch_until.h>

namespace towpath::tools {
namespace {

// How long to look away from the rendezvous, and from whether the other side lives.
constexpr Duration kNap = std::chrono::milliseconds(20);
constexpr Duration kAskAgain = std::chrono::milliseconds(200);

}  // namespace

Status check_alive(const agent::Agent& agent, const std::string& other) {
  TOWPATH_TRY(const agent::PeerInfo peer, agent.peer(other));
  if (!peer.lost) return {};
  return error(Code::peer_lost, cat("the ", other, " side is gone"),
               "look at its last words, or at why it was killed")
      .because(peer.lost_why);
}

void excuse_all(agent::Agent& agent) {
  for (const agent::PeerInfo& peer : agent.peers())
    (void)agent.expect_departure(peer.identity.name);
}

Status Conversation::meet(const rendezvous::MetadataName& name, Duration timeout,
                          const Alive& lives) {
  const run::Deadline deadline = run::Deadline::after(clock_, timeout);
  while (true) {
    const run::Deadline soon = run::Deadline::after(clock_, kAskAgain);
    const auto metadata =
        rendezvous::fetch_until(rendezvous_, name, run::Deadline::earlier(soon, deadline), clock_);
    if (metadata.ok()) return agent_.load_metadata(*metadata).status();
    if (metadata.code() != Code::timed_out) return metadata.status();
    TOWPATH_TRY(lives());
    // While it starts it may not listen yet, or listen and be too busy to answer.
    if (deadline.expired(clock_)) return metadata.status();
  }
}

Result<Conversation::Heard> Conversation::hear_any(std::span<const std::string> others,
                                                   Duration timeout) {
  const run::Deadline deadline = run::Deadline::after(clock_, timeout);
  while (waiting_.empty()) {
    rendezvous_.progress();
    const bool more = bystander_.progress && bystander_.progress();
    take_notifications(more ? Duration(0) : std::min(kNap, deadline.remaining(clock_)));
    if (!waiting_.empty()) break;
    for (const std::string& other : others) TOWPATH_TRY(check_alive(agent_, other));
    if (deadline.expired(clock_)) {
      return error(Code::timed_out,
                   cat("the ", others.size() == 1 ? others.front() : "other",
                       " side said nothing for ", timeout / std::chrono::milliseconds(1), " ms"),
                   "look at the other process: it may be stopped or overloaded");
    }
  }
  agent::Notification next = std::move(waiting_.front());
  waiting_.pop_front();
  return Heard{next.from.name, std::move(next.message)};
}

void Conversation::take_notifications(Duration most) {
  for (agent::Notification& note : agent_.wait_notifications(most))
    if (!bystander_.takes || !bystander_.takes(note)) waiting_.push_back(std::move(note));
}

Result<Bytes> Conversation::hear(const std::string& other, Duration timeout) {
  TOWPATH_TRY(Heard heard, hear_any(std::span(&other, 1), timeout));
  return std::move(heard.message);
}

}  // namespace towpath::tools
