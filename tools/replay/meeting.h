// How the processes of a replay find each other: at a rendezvous, under the name of their run, so
// that two replays at one place do not meet.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/rendezvous/rendezvous.h>

#include "tools/conversation.h"
#include "tools/replay/message.h"
#include "tools/replay/options.h"

namespace towpath::tools::replay {

/// "prefill-0", and who there are of them.
std::string prefill_name(std::uint64_t worker);
std::string decode_name(std::uint64_t worker);
std::vector<std::string> prefill_names(const Options& options);
std::vector<std::string> decode_names(const Options& options);
/// The prefills but for this one.
std::vector<std::string> neighbour_names(const Options& options);

/// One side's end of it. Thread: none of its own.
class Meeting {
 public:
  /// Publishes `agent`'s metadata under its name. Both must outlive the meeting.
  static Result<std::unique_ptr<Meeting>> open(const Options& options, agent::Agent& agent,
                                               const Clock& clock);
  /// As Conversation::meet().
  Status meet(const std::string& other, Duration timeout, const Alive& lives);

  /// What one of `others` says next. Errors: timed_out, peer_lost (one of them died), corrupt.
  struct Said {
    std::string who;
    Message message;
  };
  Result<Said> next_message(std::span<const std::string> others, Duration timeout);
  /// As Conversation's.
  void share_with(Bystander bystander) { conversation_.share_with(std::move(bystander)); }
  void take_notifications() { conversation_.take_notifications(Duration(0)); }
  /// For who sent the last word, until `other` has read it and gone. Errors: timed_out.
  Status stay_until_gone(const std::string& other, Duration timeout);

 private:
  Meeting(const Options& options, std::unique_ptr<rendezvous::Rendezvous> rendezvous,
          agent::Agent& agent, const Clock& clock)
      : run_(options.run),
        rendezvous_(std::move(rendezvous)),
        agent_(agent),
        conversation_(*rendezvous_, agent, clock) {}

  std::string run_;
  std::unique_ptr<rendezvous::Rendezvous> rendezvous_;
  agent::Agent& agent_;
  Conversation conversation_;
};

Status send(agent::Agent& agent, const std::string& other, const Message& message);

}  // namespace towpath::tools::replay
