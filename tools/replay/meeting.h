// How the two processes of a replay find each other: at a rendezvous, under the name of their run,
// so that two replays at one place do not meet.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <towpath/agent/agent.h>
#include <towpath/rendezvous/rendezvous.h>

#include "tools/replay/message.h"
#include "tools/replay/options.h"

namespace towpath::tools::replay {

inline constexpr const char* kPrefill = "prefill";
inline constexpr const char* kDecode = "decode";

/// Whether the other process still runs; a failure says how it ended.
using Alive = std::function<Status()>;

/// One side's end of it. Thread: none of its own.
class Meeting {
 public:
  /// Publishes `agent`'s card under its name. Both must outlive the meeting.
  static Result<std::unique_ptr<Meeting>> open(const Options& options, agent::Agent& agent,
                                               const Clock& clock);
  /// Waits for the other side's card and loads it. Errors: timed_out, denied, or what `lives` says.
  Status meet(const std::string& other, Duration timeout, const Alive& lives);

  /// The next notification, while the other side may still ask for our card.
  /// Errors: timed_out, peer_lost (`other` died), corrupt.
  Result<Message> next_message(const std::string& other, Duration timeout);

 private:
  Meeting(const Options& options, std::unique_ptr<rendezvous::Rendezvous> rendezvous,
          agent::Agent& agent, const Clock& clock)
      : run_(options.run), rendezvous_(std::move(rendezvous)), agent_(agent), clock_(clock) {}

  std::string run_;
  std::unique_ptr<rendezvous::Rendezvous> rendezvous_;
  agent::Agent& agent_;
  const Clock& clock_;
  std::vector<agent::Notification> waiting_;
  std::size_t taken_ = 0;
};

/// ok while `other` lives. Errors: peer_lost, with the cause.
Status check_alive(agent::Agent& agent, const std::string& other);
Status send(agent::Agent& agent, const std::string& other, const Message& message);

}  // namespace towpath::tools::replay
