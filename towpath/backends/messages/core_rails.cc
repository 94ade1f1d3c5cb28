// The further rails of a link: how they are dialled, left and dialled again.
//
//   dialled --up--> carries slices --broken, silent, or too slow beside the others--> left
//      ^                                                        reads go again at once;
//      +--------------- after a pause, longer each time <------ a fence, and then writes too
//
// Too slow is what nobody can know from one rail: its owner may be stopped, or this side was. So
// time counts against a rail only while another one is well: it was heard, and answered if it was
// asked.
#include <algorithm>
#include <new>
#include <utility>

#include <towpath/backends/messages/core.h>
#include <towpath/core/format.h>
#include <towpath/sys/random.h>

namespace towpath::backends::messages {

using namespace backend;
using std::chrono::milliseconds;

namespace {

/// How often rails are compared.
constexpr Duration kTick = milliseconds(2);
/// For which a rail may be without an answer while others have some, besides the time that it
/// usually takes for what it has under way, so many times; and if that is not known.
constexpr Duration kGrace = milliseconds(4);
constexpr int kUsualTimes = 3;
constexpr Duration kGraceOfUnknown = milliseconds(100);

constexpr Duration kFirstPause = milliseconds(250);
constexpr Duration kLongestPause = std::chrono::seconds(10);
/// A rail that was up for so long is not taken for one that breaks again and again.
constexpr Duration kLongLife = std::chrono::seconds(30);

Duration allowance(const Rail& rail) {
  if (!rail.pace.is_known()) return kGraceOfUnknown;
  const double usual = static_cast<double>(rail.window.under_way()) / rail.pace.bytes_per_ns();
  return kGrace + Duration(static_cast<std::int64_t>(kUsualTimes * usual));
}

bool is_due(const Link& link, Instant now) {
  return !link.lost && !link.is_unused() &&
         std::ranges::any_of(link.paths, [&](const RailPath& path) {
           return path.rail == nullptr && path.due <= now;
         });
}

void put_off(RailPath& path, Instant now) {
  path.pause = std::clamp(2 * path.pause, kFirstPause, kLongestPause);
  path.due = now + path.pause;
}

bool is_compared(const Link& link) {
  const auto is_up = [](const auto& rail) { return rail->is_up(); };
  const auto is_used = [](const auto& rail) { return rail->is_up() && rail->window.is_in_use(); };
  return link.has_several && std::ranges::count_if(link.rails, is_up) > 1 &&
         std::ranges::any_of(link.rails, is_used);
}

}  // namespace

void MessageBackend::tend(Link& link, Instant now) {
  if (link.lost) return;
  if (link.paths.empty()) find_paths(link, now);
  if (is_due(link, now)) dial_due(link, now);
  if (now - link.watched_at >= kTick && is_compared(link)) watch(link, now);
}

// ---- Dialling

void MessageBackend::find_paths(Link& link, Instant now) {
  Rail* const first = link.up();
  if (first == nullptr) return;
  auto found = worker_->paths(link.info->address);
  std::vector<net::MessagePath> ways =
      found.ok() ? *std::move(found) : std::vector<net::MessagePath>();
  if (ways.empty()) ways.push_back({.address = link.info->address, .name = {}});
  const auto taken =
      std::ranges::find(ways, first->session->endpoint()->path(), &net::MessagePath::name);
  if (taken != ways.end()) std::rotate(ways.begin(), taken, taken + 1);
  std::vector<RailPath> paths(carrier_.rails);  // as one: what throws has found none
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const net::MessagePath& way = ways[i % ways.size()];
    paths[i].address = way.address;
    paths[i].name = way.name;
    paths[i].due = now;
  }
  paths.front().rail = first;
  link.paths = std::move(paths);
}

void MessageBackend::dial_due(Link& link, Instant now) {
  for (RailPath& path : link.paths) {
    if (path.rail != nullptr || path.due > now) continue;
    if (const Status dialled = dial_path(link, path); !dialled.ok()) {
      log_.debug("no rail",
                 {{"peer", link.name()}, {"path", path.name}, {"why", dialled.to_string()}});
      put_off(path, now);
    }
  }
}

Status MessageBackend::dial_path(Link& link, RailPath& path) {
  const std::uint64_t number = sys::random_u64();
  auto rail = std::make_unique<Rail>(link);
  TOWPATH_TRY(auto session,
              greet(link.known_peer(), *link.info, path.address, number, link.number));
  rail->adopt(std::move(session));
  path.rail = links_->keep(number, std::move(rail));
  path.dialled_at = clock_.now();
  return {};
}

// Those of links that have nothing to do, too.
void MessageBackend::redial(Instant now) {
  std::vector<Link*> due;
  for (const auto& [session, rail] : links_->rails())
    if (is_due(rail->link, now)) due.push_back(&rail->link);
  for (Link* const link : due) dial_due(*link, now);
}

// ---- Leaving

// Of a rail that is over, of a link that has another one. What throws comes again: each step may be
// taken twice.
void MessageBackend::leave(Rail& rail) {
  Link& link = rail.link;
  const bool was_heard = rail.peer_stamp != 0;  // else no write has left over it
  links_->list(link);
  protocol_->repeat_reads(rail);
  if (link.is_dialled) {
    vacate_path(rail);
    if (Rail* const other = link.up()) {
      if (was_heard) send_fences(*other);
      if (rail.has_carried_notes) send_notes_again(*other);
    }
    if (was_heard)
      log_.warning("a rail was left", {{"peer", link.name()}, {"why", rail.why.to_string()}});
  } else {
    link.notes.is_asked_again = true;  // it may have carried an answer to some, and none of them
  }
  rail.is_left = true;
  protocol_->pump(link);  // what throws in it is tried again with each turn
  erase_drained(link);
}

void MessageBackend::vacate_path(const Rail& rail) {
  const auto path = std::ranges::find(rail.link.paths, &rail, &RailPath::rail);
  if (path == rail.link.paths.end()) return;
  const Instant now = clock_.now();
  if (rail.peer_stamp != 0 && now - path->dialled_at >= kLongLife) path->pause = {};
  path->rail = nullptr;
  put_off(*path, now);
}

// Of all that were left: what carried the ones before may be lost too.
void MessageBackend::send_fences(Rail& rail) {
  for (const auto& one : rail.link.rails)
    if (one->lost && one->peer_stamp != 0)
      links_->send_plain(rail, FrameKind::fence, 0, one->session->numbers().theirs);
}

// The answer stands behind the end: what comes of that session between them is not placed.
void MessageBackend::take_fence(Rail& rail, std::uint64_t session) {
  if (!may_answer(rail)) return;
  if (Rail* const named = links_->find(session)) {
    if (&named->link != &rail.link || named == &rail) return;  // no peer of ours asks for that
    links_->break_off(*named, error(Code::peer_lost, cat(rail.link.name(), " has left this rail")));
  }
  links_->send_plain(rail, FrameKind::fenced, 0, session);
}

void MessageBackend::take_fenced(Rail& rail, std::uint64_t session) {
  for (const auto& one : rail.link.rails)
    if (one->lost && one->session->numbers().theirs == session) protocol_->repeat_writes(*one);
}

void MessageBackend::erase_drained(Link& link) {
  if (link.lost) return;
  for (std::size_t i = 0; i < link.rails.size();) {
    Rail& rail = *link.rails[i];
    if (rail.is_left && !rail.window.is_in_use())
      links_->erase(rail);
    else
      ++i;
  }
}

// ---- Comparing

void MessageBackend::watch(Link& link, Instant now) {
  const Instant since = std::exchange(link.watched_at, now);
  const auto is_well = [&](const Rail& other) {
    return other.is_up() && other.session->heard_at() > since &&
           (!other.window.is_in_use() || other.answered_at > since);
  };
  for (const auto& rail : link.rails) {
    if (!rail->is_up()) continue;
    if (!rail->window.is_in_use()) {
      rail->suspected = {};
      // Whether it is well is what the others are compared with.
      if (rail->session->unsent() == 0) links_->send_plain(*rail, FrameKind::alive, kAnswerMe);
      continue;
    }
    if (std::ranges::none_of(link.rails,
                             [&](const auto& other) { return other != rail && is_well(*other); }))
      continue;
    rail->suspected += kTick;
    if (rail->suspected < allowance(*rail)) continue;
    links_->break_off(*rail,
                      error(Code::peer_lost,
                            cat("the rail over ", path_of(*rail), " answered nothing for ",
                                rail->suspected / milliseconds(1), " ms in which others did"),
                            "it is dialled again; look at the network between"));
  }
}

std::string MessageBackend::path_of(const Rail& rail) const {
  const auto path = std::ranges::find(rail.link.paths, &rail, &RailPath::rail);
  return path == rail.link.paths.end() || path->name.empty() ? "a path without a name" : path->name;
}

std::string MessageBackend::describe_rails(std::uint64_t instance) const {
  const Link* const link = links_->find_dialled(instance);
  if (link == nullptr || link->paths.size() < 2) return {};
  std::string all;
  for (const RailPath& path : link->paths) {
    const bool is_up = path.rail != nullptr && path.rail->is_up();
    all += cat(all.empty() ? "; rails: " : ", ", path.name.empty() ? "one" : path.name,
               is_up ? "" : " (down)");
  }
  return all;
}

Instant MessageBackend::next_watch() const {
  Instant next = Instant::never();
  for (const Link* const link : links_->busy())
    if (is_compared(*link)) next = std::min(next, link->watched_at + kTick);
  return next;
}

}  // namespace towpath::backends::messages
