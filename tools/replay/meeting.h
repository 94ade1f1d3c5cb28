// How the two processes of a replay find each other: at a rendezvous, under the name of their run,
// so that two replays at one place do not meet.
#pragma once

#include <memory>
#include <string>

#include <towpath/agent/agent.h>
#include <towpath/rendezvous/rendezvous.h>

#include "tools/conversation.h"
#include "tools/replay/message.h"
#include "tools/replay/options.h"

namespace towpath::tools::replay {

inline constexpr const char* kPrefill = "prefill";
inline constexpr const char* kDecode = "decode";

/// One side's end of it. Thread: none of its own.
class Meeting {
 public:
  /// Publishes `agent`'s card under its name. Both must outlive the meeting.
  static Result<std::unique_ptr<Meeting>> open(const Options& options, agent::Agent& agent,
                                               const Clock& clock);
  /// As Conversation::meet().
  Status meet(const std::string& other, Duration timeout, const Alive& lives);

  /// Errors: timed_out, peer_lost (`other` died), corrupt.
  Result<Message> next_message(const std::string& other, Duration timeout);

 private:
  Meeting(const Options& options, std::unique_ptr<rendezvous::Rendezvous> rendezvous,
          agent::Agent& agent, const Clock& clock)
      : run_(options.run),
        rendezvous_(std::move(rendezvous)),
        conversation_(*rendezvous_, agent, clock) {}

  std::string run_;
  std::unique_ptr<rendezvous::Rendezvous> rendezvous_;
  Conversation conversation_;
};

Status send(agent::Agent& agent, const std::string& other, const Message& message);

}  // namespace towpath::tools::replay
