#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/net/tcp/tcp_dialler.h>
#include <towpath/sys/random.h>

namespace towpath::net {
namespace {

using std::chrono::milliseconds;

/// Source: RFC 8305, section 5 (Connection Attempt Delay).
constexpr Duration kStagger = milliseconds(250);
constexpr Duration kFirstPause = milliseconds(20);
constexpr Duration kLongestPause = std::chrono::seconds(2);

/// Many that were sent away together should not come back together.
Duration jittered(Duration pause) {
  return pause / 2 + Duration(static_cast<std::int64_t>(sys::random_u64() %
                                                        static_cast<std::uint64_t>(pause.count())));
}

}  // namespace

TcpDialler::~TcpDialler() {
  loop_.wake(*this, Instant::never());
  for (const auto& place : places_) hang_up(*place);
}

Status TcpDialler::dial(const std::vector<Endpoint>& endpoints) {
  Instant turn = loop_.now();
  for (const Endpoint& endpoint : endpoints) {
    places_.push_back(std::make_unique<Place>(endpoint, options_.max_answer_bytes));
    places_.back()->due = std::exchange(turn, turn + kStagger);
  }
  // The first turns are taken here, so that what cannot even be tried is an error of this call.
  for (const auto& place : places_) {
    start(*place);
    if (!place->is_over) break;
  }
  if (std::ranges::all_of(places_, [](const auto& place) { return place->is_over; })) {
    return error(Code::unavailable,
                 cat("no address of the peer can be reached: ",
                     places_.empty() ? "its metadata has none for this host" : trouble()),
                 "look at the routes to the peer's network");
  }
  sleep_or_end();
  return {};
}

std::string TcpDialler::trouble() const {
  std::string all;
  for (const auto& place : places_) {
    if (place->turns == 0) continue;
    all += cat(all.empty() ? "" : "; ", to_string(to_address(place->endpoint)), ": ",
               place->why.ok() ? std::string_view("no answer yet") : place->why.message());
    if (place->turns > 1) all += cat(" (tried ", place->turns, " times)");
  }
  return all;
}

// ---- Turns

void TcpDialler::on_wake(Instant now) {
  for (const auto& place : places_) {
    if (!place->is_over && !place->stream && place->due <= now) start(*place);
  }
  sleep_or_end();
}

/// May end the dialler: the last thing that a caller in this file does.
void TcpDialler::sleep_or_end() {
  Instant next = Instant::never();
  bool is_over = true;
  for (const auto& place : places_) {
    if (place->is_over) continue;
    is_over = false;
    if (!place->stream) next = std::min(next, place->due);
  }
  loop_.wake(*this, next);
  if (is_over) {
    caller_.on_unreachable(
        error(Code::peer_lost, cat("nobody answers for the peer: ", trouble()),
              "look whether it runs; if it was started anew, load its newest metadata"));
  }
}

void TcpDialler::start(Place& place) {
  ++place.turns;
  place.sent = 0;
  place.answer.clear();
  if (Status reached = reach_out(place); !reached.ok()) fail(place, std::move(reached));
}

Status TcpDialler::reach_out(Place& place) {
  TOWPATH_TRY(place.stream, connect(place.endpoint));
  if (options_.tls)
    place.stream = options_.tls->client(std::move(place.stream), to_address(place.endpoint).host);
  TOWPATH_TRY(place.tag, loop_.add(place.stream->fd(), *this));
  loop_.want_writable(place.stream->fd(), place.tag, true);  // when it is connected
  return {};
}

void TcpDialler::hang_up(Place& place) {
  if (place.stream) loop_.remove(place.stream->fd(), std::exchange(place.tag, 0));
  place.stream.reset();
}

void TcpDialler::fail(Place& place, Status why) {
  // What was connected and then closed without a word was too busy, or is closing.
  // TLS sends none of it before it is sure of the peer.
  const bool was_connected = place.sent > 0 || options_.tls != nullptr;
  const bool may_try_again = was_connected && why.code() == Code::peer_lost;
  hang_up(place);
  place.why = std::move(why);
  const Instant now = loop_.now();
  if (may_try_again) {
    place.pause = std::min(std::max(2 * place.pause, kFirstPause), kLongestPause);
    place.due = now + jittered(place.pause);
    return;
  }
  place.is_over = true;
  const auto next =
      std::ranges::find_if(places_, [](const auto& other) { return other->turns == 0; });
  if (next != places_.end()) (*next)->due = now;
}

// ---- Events

void TcpDialler::on_event(const run::PollEvent& event) {
  const auto found =
      std::ranges::find_if(places_, [&](const auto& place) { return place->tag == event.tag; });
  Place& place = **found;
  Status went;
  if (place.sent < options_.first.size()) went = say(place);
  Result<bool> answered = false;
  if (went.ok() && (event.readable || event.broken) && place.sent > 0) answered = hear(place);
  if (went.ok() && answered.ok() && *answered) return reach(place);
  if (went.ok()) went = answered.status();
  if (!went.ok()) fail(place, std::move(went));
  sleep_or_end();
}

Status TcpDialler::say(Place& place) {
  TOWPATH_TRY(const std::size_t some,
              place.stream->write_some(ConstByteSpan(options_.first).subspan(place.sent)));
  place.sent += some;
  // During a handshake it is the peer's turn: a socket that can be written would spin us.
  const bool has_more = place.sent < options_.first.size() && !place.stream->waits_for_input();
  loop_.want_writable(place.stream->fd(), place.tag, has_more);
  return {};
}

/// True: it has answered as it should.
Result<bool> TcpDialler::hear(Place& place) {
  TOWPATH_TRY(const bool is_whole, place.answer.read(*place.stream));
  if (!is_whole) return false;
  TOWPATH_TRY(caller_.judge({.head = place.answer.head(), .body_bytes = place.answer.body().size()},
                            place.answer.body()));
  return true;
}

void TcpDialler::reach(Place& place) {
  auto stream = std::move(place.stream);
  loop_.remove(stream->fd(), std::exchange(place.tag, 0));
  caller_.on_reached(std::move(stream));
}

}  // namespace towpath::net
