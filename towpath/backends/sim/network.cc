#include <algorithm>
#include <cstring>

#include <towpath/backends/sim/network.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/sys/random.h>

namespace towpath::backends::sim {
namespace {

constexpr int kEventsPerCall = 16;
constexpr std::size_t kMaxOnTheWay = 1024;
/// How long what cannot pass waits before it tries again.
constexpr Duration kPartedRetry = std::chrono::milliseconds(1);

}  // namespace

Flight::Flight(backend::Operation& of, const backend::Request& request)
    : operation(of),
      connection(request.connection),
      op_(request.op),
      segments_(request.segments.begin(), request.segments.end()) {
  for (const backend::Segment& segment : segments_) {
    local_.push_back(static_cast<const SimMemory*>(segment.local)->record);
    remote_.push_back(static_cast<const SimMemory*>(segment.remote)->record);
  }
  cursor_.start(segments_);
}

void Flight::step(const Behaviour& behaviour, Random& random) {
  const std::uint64_t enough = bytes_ + behaviour.piece_bytes;
  do {
    move_piece(behaviour, random);
  } while (!behaviour.tears && !cursor_.done() && bytes_ < enough);
}

void Flight::move_piece(const Behaviour& behaviour, Random& random) {
  if (cursor_.done()) return;
  TOWPATH_CHECK(!local_[cursor_.index()]->freed, "local memory let go of under a transfer");
  if (remote_[cursor_.index()]->closed) {
    return fail_extent(
        error(Code::not_found, "the peer took its memory back", "load the peer's newest metadata"));
  }
  const std::uint64_t longest = std::min(cursor_.left(), behaviour.piece_bytes);
  const std::uint64_t length = behaviour.tears ? 1 + random.below(longest) : longest;
  const bool fails = random.chance(behaviour.failing);
  std::byte* const here = bytes_at(cursor_.local_address(), length).data();
  std::byte* const there = bytes_at(cursor_.remote_address(), length).data();
  const bool pulls = op_ == TransferOp::read;
  // memmove: a transfer to oneself may overlap, which must not be undefined behaviour.
  const std::uint64_t moved = fails ? length / 2 : length;
  std::memmove(pulls ? here : there, pulls ? there : here, moved);
  bytes_ += moved;
  if (moved > 0) cursor_.advance(moved);
  if (fails) fail_extent(error(Code::io_error, "the simulated network lost a packet"));
}

void Flight::fail_extent(Status why) {
  if (cursor_.done()) return;
  ++failed_;
  if (failures_.size() < backend::kMaxFailures)
    failures_.push_back({cursor_.index(), cursor_.extent(), cursor_.offset(), std::move(why)});
  cursor_.skip_extent();
}

void Flight::finish(Status status) {
  state = State::arrived;
  status_ = std::move(status);
  if (!status_.ok()) return failures_.clear();
  if (failed_ == 0) return;
  status_ = error(failures_.front().status.code(), cat(failed_, " extents are not in place"))
                .because(failures_.front().status);
}

Network::Network(std::uint64_t seed, const Behaviour& behaviour, const Clock& clock)
    : behaviour_(behaviour),
      clock_(clock),
      random_(seed),
      endpoints_({.table = "simulated network", .part = "sim backend"}, sys::random_u64()) {}

// ---- events

void Network::schedule(Instant at, Handler handler) {
  events_.emplace(std::pair(at, ++made_), std::move(handler));
}

bool Network::run_due() {
  run::MutexLock lock(mutex_);
  const auto is_due = [&]() TOWPATH_REQUIRES(mutex_) {
    return !events_.empty() && events_.begin()->first.first <= clock_.now();
  };
  for (int i = 0; i < kEventsPerCall && is_due(); ++i) {
    const Handler handle = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    handle();
  }
  return is_due();
}

std::optional<Instant> Network::next_event() const {
  run::MutexLock lock(mutex_);
  if (events_.empty()) return std::nullopt;
  return events_.begin()->first.first;
}

bool Network::has_work() const {
  run::MutexLock lock(mutex_);
  return !events_.empty();
}

Network::Counters Network::counters() const {
  run::MutexLock lock(mutex_);
  return counters_;
}

// ---- endpoints

Result<std::shared_ptr<Endpoint>> Network::open_endpoint(const AgentIdentity& identity) {
  TOWPATH_TRY(std::unique_ptr<run::Waker> waker, run::Waker::open());
  run::MutexLock lock(mutex_);
  return endpoints_.add(identity, [&](std::uint64_t id) {
    return std::make_shared<Endpoint>(identity, id, std::move(waker));
  });
}

void Network::close(Endpoint& endpoint) {
  run::MutexLock lock(mutex_);
  endpoint.closed = true;
  for (auto& [id, record] : endpoint.records.take_all()) record->closed = true;
  endpoint.inbox.clear();
  for (const auto& other : endpoints_.alive()) other->waker->wake();
}

void Network::cut_off(const AgentIdentity& who) {
  std::vector<std::shared_ptr<Endpoint>> gone;
  {
    run::MutexLock lock(mutex_);
    gone = endpoints_.alive();
  }
  std::erase_if(gone, [&](const auto& endpoint) { return endpoint->identity != who; });
  for (const auto& endpoint : gone) close(*endpoint);
}

backend::EndpointAddress Network::address_of(const Endpoint& endpoint) const {
  run::MutexLock lock(mutex_);
  return endpoints_.address_of(endpoint.id);
}

Result<std::shared_ptr<Endpoint>> Network::find(const AgentIdentity& peer,
                                                ConstByteSpan info) const {
  run::MutexLock lock(mutex_);
  TOWPATH_TRY(std::shared_ptr<Endpoint> endpoint, endpoints_.find(peer, info));
  if (endpoint->closed) return endpoints_.peer_gone(peer);
  return endpoint;
}

bool Network::is_closed(const Endpoint& endpoint) const {
  run::MutexLock lock(mutex_);
  return endpoint.closed;
}

void Network::set_parted(const AgentIdentity& one, const AgentIdentity& other, bool parted) {
  run::MutexLock lock(mutex_);
  const auto pair = std::minmax(one, other);
  if (parted) {
    parted_.emplace(pair.first, pair.second);
  } else {
    parted_.erase({pair.first, pair.second});
  }
}

bool Network::are_parted(const Path& path) const {
  if (parted_.empty()) return false;
  const auto pair = std::minmax(path.from->identity, path.to->identity);
  return parted_.contains({pair.first, pair.second});
}

// ---- memory

std::shared_ptr<Record> Network::add_record(Endpoint& endpoint, const RegionDescriptor& region) {
  run::MutexLock lock(mutex_);
  return endpoint.records.add(region);
}

void Network::close_record(Endpoint& endpoint, Record& record) {
  run::MutexLock lock(mutex_);
  record.closed = record.freed = true;
  endpoint.records.remove(record.id);
}

Result<std::shared_ptr<Record>> Network::find_record(const Endpoint& endpoint,
                                                     std::uint64_t record_id,
                                                     const RegionDescriptor& region) const {
  run::MutexLock lock(mutex_);
  return endpoint.records.find(record_id, region);
}

// ---- transfers

void Network::launch(const Path& path, std::shared_ptr<Flight> flight) {
  run::MutexLock lock(mutex_);
  ++counters_.launched;
  flight->silent = random_.chance(behaviour_.silent);
  counters_.silent += flight->silent ? 1 : 0;
  if (!flight->silent && random_.chance(behaviour_.eager)) {
    while (!flight->at_end()) flight->step(behaviour_, random_);
    return arrive(path, flight, {});
  }
  schedule(clock_.now() + random_.within(behaviour_.longest_step),
           [this, path, flight]() TOWPATH_REQUIRES(mutex_) { fly(path, flight); });
}

void Network::fly(const Path& path, const std::shared_ptr<Flight>& flight) {
  // A peer that is gone is reported as lost, not as extents that failed.
  if (flight->state != Flight::State::flying || path.to->closed) return;
  Duration next = random_.within(behaviour_.longest_step);
  if (are_parted(path)) {
    next += kPartedRetry;
  } else {
    if (flight->at_end() && !flight->silent) return arrive(path, flight, {});
    // One that falls silent does so on the way, or with all bytes moved and no report.
    if (flight->silent && (flight->at_end() || random_.chance(200))) return;
    flight->step(behaviour_, random_);
    ++counters_.pieces;
  }
  schedule(clock_.now() + next,
           [this, path, flight]() TOWPATH_REQUIRES(mutex_) { fly(path, flight); });
}

void Network::arrive(const Path& path, const std::shared_ptr<Flight>& flight, Status status) {
  if (flight->state != Flight::State::flying) return;
  flight->finish(std::move(status));
  path.from->arrived.push_back(flight);
  path.from->waker->wake();
}

void Network::cancel(const Path& path, const std::shared_ptr<Flight>& flight) {
  run::MutexLock lock(mutex_);
  if (flight->state != Flight::State::flying || flight->cancelled) return;
  flight->cancelled = true;
  const Status why = error(Code::cancelled, "the simulated transfer was cancelled");
  if (behaviour_.quiesced == backend::Quiescence::immediate) return arrive(path, flight, why);
  if (behaviour_.quiesced != backend::Quiescence::bounded) return;  // bytes go on moving
  schedule(clock_.now() + random_.within(behaviour_.quiescence_bound),
           [this, path, flight, why]() TOWPATH_REQUIRES(mutex_) {
             arrive(path, flight, flight->at_end() && !flight->silent ? Status() : why);
           });
}

void Network::force_down(const Path& path, const std::shared_ptr<Flight>& flight,
                         const Status& why) {
  run::MutexLock lock(mutex_);
  arrive(path, flight, why);
}

std::shared_ptr<Flight> Network::take_arrived(Endpoint& endpoint) {
  run::MutexLock lock(mutex_);
  if (endpoint.arrived.empty()) return nullptr;
  auto flight = std::move(endpoint.arrived.front());
  endpoint.arrived.pop_front();
  flight->state = Flight::State::reported;
  return flight;
}

// ---- messages

Status Network::send(const Path& path, ConstByteSpan message) {
  run::MutexLock lock(mutex_);
  if (path.to->closed)
    return error(Code::peer_lost, cat(to_string(path.to->identity), " is cut off"));
  std::size_t& waiting = path.to->on_the_way[path.from->identity];
  if (waiting >= kMaxOnTheWay) {
    return error(Code::exhausted, cat(waiting, " messages wait for ", to_string(path.to->identity)),
                 "let the receiver make progress and send again");
  }
  ++counters_.sent;
  int copies = 1;
  if (is_lossy()) {
    if (random_.chance(behaviour_.repeated)) copies = 2;
    if (random_.chance(behaviour_.dropped)) copies = 0;
    counters_.repeated += copies == 2 ? 1 : 0;
    counters_.dropped += copies == 0 ? 1 : 0;
  }
  for (int i = 0; i < copies; ++i) {
    ++waiting;
    carry(path, {message.begin(), message.end()});
  }
  return {};
}

void Network::carry(const Path& path, Bytes message) {
  const Instant at = clock_.now() + random_.within(behaviour_.longest_way);
  if (is_lossy()) {
    if (random_.chance(behaviour_.torn)) {
      ++counters_.torn;
      if (message.empty() || random_.chance(500)) {
        message.resize(random_.below(message.size() + 1));
      } else {
        message[random_.below(message.size())] ^= static_cast<std::byte>(1 + random_.below(255));
      }
    }
    schedule(at, [this, path, message = std::move(message)]()
                     TOWPATH_REQUIRES(mutex_) { deliver_lossy(path, message); });
    return;
  }
  path.to->in_order[path.from->identity].push_back(std::move(message));
  schedule(at, [this, path]() TOWPATH_REQUIRES(mutex_) { deliver_next(path); });
}

void Network::deliver_lossy(const Path& path, const Bytes& message) {
  if (path.to->closed) return;
  if (are_parted(path)) {
    ++counters_.dropped;
    --path.to->on_the_way[path.from->identity];
    return;
  }
  path.to->inbox.push_back({path.from->identity, message});
  path.to->waker->wake();
}

// Whichever of them is due, the oldest arrives.
void Network::deliver_next(const Path& path) {
  if (path.to->closed) return;
  if (are_parted(path))
    return schedule(clock_.now() + kPartedRetry,
                    [this, path]() TOWPATH_REQUIRES(mutex_) { deliver_next(path); });
  auto& waiting = path.to->in_order[path.from->identity];
  path.to->inbox.push_back({path.from->identity, std::move(waiting.front())});
  waiting.pop_front();
  path.to->waker->wake();
}

std::optional<Message> Network::take_message(Endpoint& endpoint,
                                             const std::set<AgentIdentity>& but_not_from) {
  run::MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(endpoint.inbox, [&](const Message& next_message) {
    return !but_not_from.contains(next_message.from);
  });
  if (found == endpoint.inbox.end()) return std::nullopt;
  Message next_message = std::move(*found);
  endpoint.inbox.erase(found);
  return next_message;
}

void Network::put_back(Endpoint& endpoint, Message next_message) {
  run::MutexLock lock(mutex_);
  endpoint.inbox.push_front(std::move(next_message));
}

void Network::took(Endpoint& endpoint, const AgentIdentity& from) {
  run::MutexLock lock(mutex_);
  const auto found = endpoint.on_the_way.find(from);
  if (found != endpoint.on_the_way.end() && found->second > 0) --found->second;
}

}  // namespace towpath::backends::sim
