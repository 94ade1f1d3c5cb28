#include "tools/replay/meeting.h"

#include <towpath/core/format.h>
#include <towpath/standard/rendezvous_url.h>

namespace towpath::tools::replay {
namespace {

template <typename NameOf>
std::vector<std::string> names_of(std::uint64_t count, const NameOf& name_of) {
  std::vector<std::string> names;
  for (std::uint64_t worker = 0; worker < count; ++worker) names.push_back(name_of(worker));
  return names;
}

}  // namespace

std::string prefill_name(std::uint64_t worker) { return cat("prefill-", worker); }
std::string decode_name(std::uint64_t worker) { return cat("decode-", worker); }
std::vector<std::string> prefill_names(const Options& options) {
  return names_of(options.prefills, prefill_name);
}
std::vector<std::string> decode_names(const Options& options) {
  return names_of(options.decodes, decode_name);
}
std::vector<std::string> neighbour_names(const Options& options) {
  std::vector<std::string> names = prefill_names(options);
  std::erase(names, prefill_name(options.worker));
  return names;
}

Result<std::unique_ptr<Meeting>> Meeting::open(const Options& options, agent::Agent& agent,
                                               const Clock& clock) {
  TOWPATH_TRY(auto made, standard::open_rendezvous(options.rendezvous, clock));
  TOWPATH_TRY(const Bytes metadata, agent.metadata());
  TOWPATH_TRY(made->publish(cat(options.run, "/", agent.name()), metadata));
  return std::unique_ptr<Meeting>(new Meeting(options, std::move(made), agent, clock));
}

Status Meeting::meet(const std::string& other, Duration timeout, const Alive& lives) {
  return conversation_.meet(cat(run_, "/", other), timeout, lives);
}

Result<Meeting::Said> Meeting::next_message(std::span<const std::string> others, Duration timeout) {
  TOWPATH_TRY(const Conversation::Heard heard, conversation_.hear_any(others, timeout));
  TOWPATH_TRY(Message message, decode(heard.message));
  return Said{heard.who, std::move(message)};
}

Status Meeting::stay_until_gone(const std::string& other, Duration timeout) {
  while (check_alive(agent_, other).ok()) {
    if (const auto last = next_message(std::span(&other, 1), timeout);
        last.code() == Code::timed_out)
      return last.status();
  }
  return {};
}

Status send(agent::Agent& agent, const std::string& other, const Message& message) {
  TOWPATH_TRY(const Bytes bytes, encode(message));
  return agent.notify(other, bytes);
}

}  // namespace towpath::tools::replay
