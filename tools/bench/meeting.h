// How initiator and target find each other and talk: metadata through a rendezvous, then
// notifications. The only file of the measurement that knows of rendezvous. Thread: none of its
// own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/net/address.h>
#include <towpath/rendezvous/peer_rendezvous.h>
#include <towpath/standard/standard.h>

#include "tools/bench/message.h"
#include "tools/bench/options.h"
#include "tools/conversation.h"

namespace towpath::tools::bench {

inline constexpr const char* kInitiator = "initiator";
inline constexpr const char* kTarget = "target";

/// An agent with the backend of the options; or with all that open, and in `refused` why the others
/// did not.
struct RefusedBackend {
  std::string name;
  Status why;
};
struct NodeParts {
  const backend::Registry* registry = nullptr;     ///< null: its own
  std::vector<RefusedBackend>* refused = nullptr;  ///< null: nobody asks
};
Result<std::unique_ptr<standard::Node>> open_node(const std::string& name, const Options& options,
                                                  const NodeParts& parts = {});

class Meeting {
 public:
  /// Publishes `agent`'s metadata under its name, where the options say. Both must outlive the
  /// meeting.
  static Result<std::unique_ptr<Meeting>> open(const Options& options, agent::Agent& agent,
                                               const Clock& clock);

  /// Where it listens for who connects: with the port that the kernel chose. Empty: it does not.
  std::string door() const;

  /// Waits for the other side's metadata and loads it. Errors: timed_out, or what `lives` says.
  Status meet(const std::string& other, Duration timeout, const Alive& lives);

  Status send(const std::string& other, const Message& message);
  /// Errors: timed_out, peer_lost (`other` died), corrupt; unavailable (it says that it failed).
  Result<Message> receive(const std::string& other, Duration timeout);
  /// receive(), and it must be of this kind.
  Result<Message> receive(const std::string& other, MessageKind kind, Duration timeout);
  /// Notifies the other side that this was all, stays until it has gone (it may not find us lost
  /// before it has read that), and forgets it. `lives` is asked meanwhile.
  void end(const std::string& other, const Alive& lives);

 private:
  Meeting(std::unique_ptr<rendezvous::PeerRendezvous> rendezvous, agent::Agent& agent,
          const Clock& clock)
      : rendezvous_(std::move(rendezvous)),
        agent_(agent),
        clock_(clock),
        conversation_(*rendezvous_, agent, clock) {}

  Status wait_for_metadata(const std::string& other, run::Deadline deadline, const Alive& lives);
  Status meet_far(const std::string& other, run::Deadline deadline);
  void nap();

  std::unique_ptr<rendezvous::PeerRendezvous> rendezvous_;
  agent::Agent& agent_;
  const Clock& clock_;
  Conversation conversation_;
  std::optional<net::Address> far_;  // of the other side, on another host
  bool listens_ = false;
};

}  // namespace towpath::tools::bench
