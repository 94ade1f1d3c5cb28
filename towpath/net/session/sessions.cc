#include <algorithm>
#include <map>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/net/session/sessions.h>

namespace towpath::net {

Sessions::Sessions(MessageWorker& worker, const Clock& clock, const SessionOptions& options,
                   telemetry::Log log, telemetry::Counter* refused)
    : worker_(worker),
      clock_(clock),
      options_(options),
      log_(std::move(log)),
      refused_(refused),
      last_turn_(clock.now()) {
  next_check_ = last_turn_ + options.every;
}

std::unique_ptr<MessageBuffer> Sessions::frame_of(const Session& session, ConstByteSpan handshake) {
  auto buffer = worker_.buffers().take();
  options_.wrap(*buffer, session.numbers(), handshake);
  return buffer;
}

std::unique_ptr<Session> Sessions::make(const SessionPath& path) const {
  auto session = std::make_unique<Session>(path.peer, path.numbers, clock_.now());
  session->no_memory_ = no_memory_;
  session->label_ = path.label;
  return session;
}

void Sessions::take_keys(Session& session, const SessionKeys& keys, std::uint64_t connection) {
  session.connection_ = connection;
  session.sealer_ = Sealer(keys.sending);
  session.seals_ = SealReader(keys.receiving,
                              options_.has_connections ? Delivery::ordered : Delivery::unordered);
  session.handshake_ = std::monostate();
  session.is_proven_ = true;
  session.heard_at_ = clock_.now();
}

// ---- The side that dials

Result<std::unique_ptr<Session>> Sessions::dial(const SessionTerms& terms, const SessionParty& self,
                                                const SessionPath& path) {
  auto session = make(path);
  TOWPATH_TRY(auto dialling,
              DialHandshake::begin(terms, self, {path.peer.agent, path.peer.instance}));
  TOWPATH_TRY(session->endpoint_,
              worker_.connect(path.address, frame_of(*session, dialling.hello()), session.get()));
  session->handshake_ = std::move(dialling);
  return session;
}

Status Sessions::confirm(Session& session, const DialHandshake::Outcome& outcome,
                         std::uint64_t their_number, std::uint64_t connection) {
  session.numbers_.theirs = their_number;
  Status sent;
  try {
    sent = session.endpoint_->send(frame_of(session, outcome.confirmation));
  } catch (const std::bad_alloc&) {
    sent = no_memory_;
  }
  TOWPATH_TRY(std::move(sent));
  take_keys(session, outcome.keys, connection);
  session.is_up_ = options_.has_connections;
  return {};
}

// ---- The side that is dialled

// Over connections one goes for a newer one, the oldest of the host that has most: anybody may
// repeat a recorded hello, and a holder of the secret confirms as soon as it is answered.
bool Sessions::leave_room(HalfOpen::iterator begin, HalfOpen::iterator end, std::size_t most) {
  const auto counts = [](const auto& entry) { return !entry.second->is_over_; };
  if (static_cast<std::size_t>(std::count_if(begin, end, counts)) < most) return true;
  if (!options_.has_connections) return false;
  std::map<std::string_view, std::size_t> of_host;
  for (auto at = begin; at != end; ++at)
    if (counts(*at)) ++of_host[at->second->host()];
  Session* first = nullptr;
  std::pair<std::size_t, Instant> least;
  for (auto at = begin; at != end; ++at) {
    Session& one = *at->second;
    if (one.is_over_) continue;
    const std::pair rank(SIZE_MAX - of_host[one.host()], one.heard_at_);
    if (first == nullptr || rank < least) first = &one, least = rank;
  }
  give_up(*first);
  return true;
}

Status Sessions::accept(AcceptHandshake handshake, const SessionPath& path) {
  if (half_open_.size() >= options_.most_half_open &&
      !leave_room(half_open_.begin(), half_open_.end(), options_.most_half_open))
    return error(Code::exhausted, cat(half_open_.size(), " peers have begun and not confirmed"));
  const auto [begin, end] = half_open_.equal_range(path.numbers.theirs);
  if (!leave_room(begin, end, options_.most_half_open_of_one))
    return error(Code::exhausted, cat(path.peer.name, " has begun and not confirmed, ",
                                      options_.most_half_open_of_one, " times"));
  auto known = half_open_.end();
  Status answered;
  try {
    auto made = make(path);
    made->handshake_ = std::move(handshake);
    // Known before it is answered: a peer that was answered and is not known would be lost.
    known = half_open_.emplace(path.numbers.theirs, std::move(made));
    answered = answer(*known->second, path);
  } catch (const std::bad_alloc&) {
    answered = no_memory_;
  }
  if (!answered.ok() && known != half_open_.end()) half_open_.erase(known);
  return answered;
}

Status Sessions::answer(Session& session, const SessionPath& path) {
  session.connection_ = path.connection;
  auto frame = frame_of(session, std::get<AcceptHandshake>(session.handshake_).answer());
  if (!options_.has_connections) {
    TOWPATH_TRY(session.endpoint_, worker_.connect(path.address, std::move(frame), &session));
    return {};
  }
  TOWPATH_TRY(session.endpoint_, worker_.answer(path.connection, &session));
  return session.endpoint_->send(std::move(frame));
}

Result<Session*> Sessions::take_confirmation(const SessionNumbers& numbers,
                                             std::uint64_t connection, ConstByteSpan confirmation) {
  Status last = error(Code::not_found, "no handshake waits for it");
  const auto [begin, end] = half_open_.equal_range(numbers.theirs);
  for (auto at = begin; at != end; ++at) {
    Session& session = *at->second;
    const auto* const accepting = std::get_if<AcceptHandshake>(&session.handshake_);
    if (accepting == nullptr || session.is_over_ || session.connection_ != connection ||
        session.numbers_.ours != numbers.ours)
      continue;
    const auto keys = accepting->take(confirmation);
    if (!keys.ok()) {
      last = keys.status();
      continue;
    }
    take_keys(session, *keys, connection);
    session.is_up_ = true;
    session.endpoint_->admit();
    give_up(session);  // unless it is released
    return &session;
  }
  return last;
}

std::unique_ptr<Session> Sessions::release(Session& session) noexcept {
  std::unique_ptr<Session> released;
  const auto [begin, end] = half_open_.equal_range(session.numbers_.theirs);
  for (auto at = begin; at != end;) {
    const auto one = at++;
    if (one->second.get() != &session) {
      give_up(*one->second);
      continue;
    }
    one->second->is_over_ = false;
    released = std::move(one->second);
    half_open_.erase(one);
  }
  return released;
}

// ---- While they last

Session& Sessions::note_broken(void* endpoint_owner, const Status& why) {
  Session& session = *static_cast<Session*>(endpoint_owner);
  if (session.owner == nullptr) give_up(session);
  session.broken_ =
      error(Code::peer_lost, cat("the connection to ", session.peer_.name, " broke")).because(why);
  return session;
}

Status Sessions::distrust(const Session& session, const Status& why) {
  refuse(session.peer_.name, why);
  return error(Code::peer_lost,
               cat("the session with ", session.peer_.name, " is not safe any more"))
      .because(why);
}

void Sessions::refuse(std::string_view whom, const Status& why) {
  if (refused_ != nullptr) refused_->add(1);
  log_.warning("refused", {{"whom", std::string(whom)}, {"why", why.to_string()}});
}

bool Sessions::check_half_open(Instant now, Duration away) {
  const bool is_due = now >= next_check_;
  if (is_due) {
    next_check_ = now + options_.every;
    // We were stopped ourselves: what the others said meanwhile is still on its way to us.
    was_away_ = away >= options_.timeout / 2;
    for (const auto& [number, session] : half_open_)
      if (!check_silence(*session, now).ok()) give_up(*session);
  }
  if (std::exchange(has_over_, false))
    std::erase_if(half_open_, [](const auto& entry) { return entry.second->is_over_; });
  return is_due;
}

Status Sessions::check_silence(Session& session, Instant now) const {
  if (was_away_) session.heard_at_ = now;
  if (now - session.heard_at_ < options_.timeout) return {};
  const auto silent =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - session.heard_at_);
  const std::string trouble = session.endpoint_ ? session.endpoint_->trouble() : "";
  return error(Code::peer_lost,
               cat(session.peer_.name, " was silent for ", silent.count(), " ms",
                   trouble.empty() ? "" : ": ", trouble),
               "look whether it runs, and at the network between");
}

}  // namespace towpath::net
