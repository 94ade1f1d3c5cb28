// Conversation: how the two processes of a command wait for one another: for the other's metadata,
// then for what it says, and for neither longer than it lives. What the messages mean is the
// command's. Thread: none of its own.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/rendezvous/rendezvous.h>

namespace towpath::tools {

/// Whether the other process still runs; a failure says how it ended.
using Alive = std::function<Status()>;

/// ok while `other` lives. Errors: peer_lost, with the cause.
Status check_alive(const agent::Agent& agent, const std::string& other);

/// How long another process may take to go once all is done.
inline constexpr Duration kFarewell = std::chrono::seconds(5);

/// All that the command wanted is done: who goes now does as it should.
void excuse_all(agent::Agent& agent);

/// Who else lives of the agent's notifications and of this thread.
struct Bystander {
  std::function<bool(const agent::Notification&)> takes;  ///< true: it was for them
  std::function<bool()> progress;                         ///< true: there is more to do at once
};

class Conversation {
 public:
  /// All must outlive it.
  Conversation(rendezvous::Rendezvous& rendezvous, agent::Agent& agent, const Clock& clock)
      : rendezvous_(rendezvous), agent_(agent), clock_(clock) {}

  /// Waits until the metadata of `name` is published, and loads it.
  /// Errors: timed_out, whatever else a fetch fails with, or what `lives` says.
  Status meet(const rendezvous::MetadataName& name, Duration timeout, const Alive& lives);

  /// What one of `others` says next. The rendezvous makes progress meanwhile: somebody may still
  /// ask for our metadata. A timeout of zero takes what has come. Errors: timed_out, peer_lost (one
  /// of them died).
  struct Heard {
    std::string who;
    Bytes message;
  };
  Result<Heard> hear_any(std::span<const std::string> others, Duration timeout);
  Result<Bytes> hear(const std::string& other, Duration timeout);

  /// Served while this one waits; outlives it, or is never waited for again.
  void share_with(Bystander bystander) { bystander_ = std::move(bystander); }
  /// Takes what comes within `most`, and gives the bystander its share.
  void take_notifications(Duration most);

 private:
  rendezvous::Rendezvous& rendezvous_;
  agent::Agent& agent_;
  const Clock& clock_;
  Bystander bystander_;
  std::deque<agent::Notification> waiting_;
};

}  // namespace towpath::tools
