#include "tools/bench/meeting.h"

#include <algorithm>

#include <poll.h>

#include <towpath/core/format.h>
#include <towpath/standard/metadata_security.h>

#include "tools/node_telemetry.h"

namespace towpath::tools::bench {
namespace {

// How long to look away from whether the other side lives.
constexpr Duration kNap = std::chrono::milliseconds(20);

/// A partner is lost when it is silent for longer than its next word may take: a busy machine may
/// leave a process without a processor for seconds.
backend::Params params_of(const backend::BackendType& type, Duration timeout) {
  constexpr Duration kShortest = std::chrono::seconds(5);
  constexpr Duration kLongest = std::chrono::hours(24);  // that backends take
  const bool has_heartbeats = std::ranges::find(type.params, "heartbeat_ms",
                                                &backend::ParamInfo::name) != type.params.end();
  if (!has_heartbeats) return {};
  const Duration silence = std::clamp(timeout, kShortest, kLongest);
  return {{"timeout_ms", cat(silence / std::chrono::milliseconds(1))}};
}

Result<std::unique_ptr<rendezvous::PeerRendezvous>> open_rendezvous(const Options& options,
                                                                    const Clock& clock) {
  rendezvous::PeerRendezvousOptions how;
  how.scope = options.scope;
  standard::MetadataSecurity security;
  if (!options.token_file.empty()) {
    TOWPATH_TRY(security.token, standard::read_token(options.token_file));
  }
  how.listener.loopback_only = security.is_of_this_host();
  how.tls = standard::tls_provider(std::move(security));
  if (!options.listen.empty()) {
    TOWPATH_TRY(how.door, net::parse_address(options.listen));
  }
  return rendezvous::PeerRendezvous::open(std::move(how), clock);
}

}  // namespace

Result<std::unique_ptr<standard::Node>> open_node(const std::string& name, const Options& options,
                                                  const NodeParts& parts) {
  standard::NodeOptions how{.name = name,
                            .progress_thread = options.progress_thread,
                            .default_timeout = options.timeout,
                            .registry = parts.registry};
  TOWPATH_TRY(how.telemetry, telemetry_of_environment());
  TOWPATH_TRY(auto node, standard::Node::open(how));
  const backend::Registry types = standard::make_registry();
  const auto add = [&](const std::string& backend) -> Status {
    TOWPATH_TRY(const backend::BackendType* const type, types.find(backend));
    return node->agent().add_backend(backend, params_of(*type, options.timeout));
  };
  if (!options.all_backends) {
    TOWPATH_TRY(add(options.backend));
    return node;
  }
  for (const std::string& backend : types.names()) {
    Status opened = add(backend);
    if (!opened.ok() && parts.refused != nullptr)
      parts.refused->push_back({backend, std::move(opened)});
  }
  return node;
}

Result<std::unique_ptr<Meeting>> Meeting::open(const Options& options, agent::Agent& agent,
                                               const Clock& clock) {
  TOWPATH_TRY(auto made, open_rendezvous(options, clock));
  std::unique_ptr<Meeting> meeting(new Meeting(std::move(made), agent, clock));
  if (!options.connect.empty()) {
    TOWPATH_TRY(meeting->far_, net::parse_address(options.connect));
  }
  meeting->listens_ = !options.listen.empty();
  TOWPATH_TRY(const Bytes metadata, agent.metadata());
  TOWPATH_TRY(meeting->rendezvous_->publish(agent.name(), metadata));
  return meeting;
}

std::string Meeting::door() const {
  const auto door = rendezvous_->door();
  return door ? net::to_string(*door) : std::string();
}

Status Meeting::meet(const std::string& other, Duration timeout, const Alive& lives) {
  if (listens_) return wait_for_metadata(other, run::Deadline::after(clock_, timeout), lives);
  if (far_) return meet_far(other, run::Deadline::after(clock_, timeout));
  return conversation_.meet(other, timeout, lives);
}

// Who listens is brought the other's metadata.
Status Meeting::wait_for_metadata(const std::string& other, run::Deadline deadline,
                                  const Alive& lives) {
  std::optional<Bytes> brought;
  rendezvous_->watch([&](const rendezvous::Change& change) {
    if (change.name.agent == other && change.metadata) brought = change.metadata;
  });
  while (!brought) {
    if (deadline.expired(clock_))
      return error(Code::timed_out, cat("no ", other, " has come"), "start it with --connect");
    TOWPATH_TRY(lives());
    nap();
  }
  rendezvous_->watch([](const rendezvous::Change&) {});
  return agent_.load_metadata(*brought).status();
}

// Who connects asks for the metadata of the one who listens, again and again while nobody does, and
// brings its own.
Status Meeting::meet_far(const std::string& other, run::Deadline deadline) {
  while (true) {
    std::optional<Result<Bytes>> metadata;
    TOWPATH_TRY(rendezvous_->fetch_from(
        *far_, other, deadline, [&](Result<Bytes> answer) { metadata = std::move(answer); }));
    while (!metadata) nap();
    if (metadata->ok()) {
      TOWPATH_TRY(agent_.load_metadata(**metadata));
      break;
    }
    if (metadata->code() != Code::unavailable || deadline.expired(clock_))
      return metadata->status();
    nap();
  }
  TOWPATH_TRY(Bytes mine, agent_.metadata());
  std::optional<Status> reported;
  TOWPATH_TRY(rendezvous_->send_to(*far_, {.name = agent_.name(), .metadata = std::move(mine)},
                                   deadline, [&](Status answer) { reported = std::move(answer); }));
  while (!reported) nap();
  return *std::move(reported);
}

// Sleeps until the rendezvous has something to do, or for a moment.
void Meeting::nap() {
  if (rendezvous_->progress() > 0) return;
  pollfd ready{.fd = rendezvous_->wait_fd(), .events = POLLIN, .revents = 0};
  (void)poll(&ready, 1, static_cast<int>(kNap / std::chrono::milliseconds(1)));
  rendezvous_->progress();
}

Status Meeting::send(const std::string& other, const Message& message) {
  TOWPATH_TRY(const Bytes bytes, encode(message));
  return agent_.notify(other, bytes);
}

Result<Message> Meeting::receive(const std::string& other, Duration timeout) {
  TOWPATH_TRY(const Bytes bytes, conversation_.hear(other, timeout));
  TOWPATH_TRY(Message message, decode(bytes));
  if (message.kind == MessageKind::failed)
    return error(Code::unavailable, cat("the ", other, " gave up: ", printable(message.text, 1024)),
                 printable(message.hint, 1024));
  return message;
}

Result<Message> Meeting::receive(const std::string& other, MessageKind kind, Duration timeout) {
  TOWPATH_TRY(Message message, receive(other, timeout));
  if (message.kind != kind)
    return error(Code::corrupt,
                 cat("the ", other, " answered with message ", static_cast<int>(message.kind),
                     " instead of ", static_cast<int>(kind)),
                 "use the same release of Towpath on both sides");
  return message;
}

void Meeting::end(const std::string& other, const Alive& lives) {
  excuse_all(agent_);
  const run::Deadline deadline = run::Deadline::after(clock_, kFarewell);
  const Status reported = send(other, {.kind = MessageKind::finish});
  while (reported.ok() && lives().ok() && check_alive(agent_, other).ok() &&
         !deadline.expired(clock_))
    conversation_.take_notifications(kNap);
  (void)agent_.forget_peer(other);
}

}  // namespace towpath::tools::bench
