#include "tools/replay/meeting.h"

#include <towpath/core/text.h>
#include <towpath/standard/rendezvous_url.h>

namespace towpath::tools::replay {

Result<std::unique_ptr<Meeting>> Meeting::open(const Options& options, agent::Agent& agent,
                                               const Clock& clock) {
  TOWPATH_TRY(auto made, standard::open_rendezvous(options.rendezvous, clock));
  TOWPATH_TRY(const Bytes card, agent.card());
  TOWPATH_TRY(made->publish(cat(options.run, "/", agent.name()), card));
  return std::unique_ptr<Meeting>(new Meeting(options, std::move(made), agent, clock));
}

Status Meeting::meet(const std::string& other, Duration timeout, const Alive& lives) {
  return conversation_.meet(cat(run_, "/", other), timeout, lives);
}

Result<Message> Meeting::next_message(const std::string& other, Duration timeout) {
  TOWPATH_TRY(const Bytes bytes, conversation_.hear(other, timeout));
  return decode(bytes);
}

Status send(agent::Agent& agent, const std::string& other, const Message& message) {
  TOWPATH_TRY(const Bytes bytes, encode(message));
  return agent.notify(other, bytes);
}

}  // namespace towpath::tools::replay
