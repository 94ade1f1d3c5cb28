#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/standard/metadata_exchange.h>

namespace towpath::standard {

namespace {

using rendezvous::Change;
using rendezvous::MetadataName;

constexpr std::size_t kMaxOutcomes = 1024;
constexpr Duration kAskAgain = std::chrono::milliseconds(50);
constexpr std::uint64_t kStopTag = 3;

bool may_come_yet(Code code) { return code == Code::not_found || code == Code::unavailable; }

std::string to_text(const std::optional<net::Address>& place) {
  return place ? net::to_string(*place) : "the store";
}

std::string_view doing(ExchangeOutcome::What what) {
  switch (what) {
    case ExchangeOutcome::What::sent: return "send metadata";
    case ExchangeOutcome::What::fetched: return "fetch metadata";
    case ExchangeOutcome::What::invalidated: return "invalidate our metadata";
    case ExchangeOutcome::What::brought: return "take metadata";
    case ExchangeOutcome::What::withdrawn: return "forget a peer";
  }
  return "exchange metadata";
}

}  // namespace

std::string_view name_of(ExchangeOutcome::What what) {
  switch (what) {
    case ExchangeOutcome::What::sent: return "sent";
    case ExchangeOutcome::What::fetched: return "fetched";
    case ExchangeOutcome::What::invalidated: return "invalidated";
    case ExchangeOutcome::What::brought: return "brought";
    case ExchangeOutcome::What::withdrawn: return "withdrawn";
  }
  return "unknown";
}

Result<std::unique_ptr<MetadataExchange>> MetadataExchange::open(MetadataExchangeOptions options) {
  if (options.agent == nullptr || options.clock == nullptr)
    return error(Code::invalid_argument, "an exchange without agent or clock");
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  std::unique_ptr<MetadataExchange> made(
      new MetadataExchange(std::move(options), std::move(poller), std::move(timer)));
  const run::MutexLock lock(made->mutex_);
  TOWPATH_TRY(made->open_doors());
  made->gauge_store();
  return made;
}

MetadataExchange::MetadataExchange(MetadataExchangeOptions options, run::Poller poller,
                                   run::TimerFd timer)
    : options_(std::move(options)), poller_(std::move(poller)), timer_(std::move(timer)) {}

// The store may take its time to die: what it could still call must be there until then.
MetadataExchange::~MetadataExchange() {
  worker_.reset();
  options_.store.reset();
}

Status MetadataExchange::open_doors() {
  rendezvous::PeerRendezvousOptions doors;
  doors.door = options_.listen;
  doors.tls = tls_provider(options_.security);
  doors.listener.loopback_only = options_.security.is_of_this_host();
  doors.listener.log = options_.log;
  doors.listener.max_metadata_bytes = rendezvous::kMaxMetadataBytes;
  TOWPATH_TRY(doors_, rendezvous::PeerRendezvous::open(std::move(doors), *options_.clock));
  doors_->watch([this](const Change& change) TOWPATH_REQUIRES(mutex_) { heard(change, false); });
  doors_->on_ask([this](const MetadataName& name) -> Result<Bytes> {
    if (name == MetadataName(options_.agent->name())) return options_.agent->metadata();
    return error(Code::not_found, cat("here is ", printable(options_.agent->name()), ", not ",
                                      rendezvous::to_string(name)));
  });
  TOWPATH_TRY(poller_.add(timer_.fd(), 0));
  TOWPATH_TRY(poller_.add(doors_->wait_fd(), 1));
  return options_.store ? poller_.add(options_.store->wait_fd(), 2) : Status();
}

std::optional<net::Address> MetadataExchange::listening_at() const {
  const run::MutexLock lock(mutex_);
  return doors_->door();
}

rendezvous::Standing MetadataExchange::standing() const {
  const run::MutexLock lock(mutex_);
  return options_.store ? options_.store->standing() : rendezvous::Standing();
}

// Made under the lock: of two that send, the one that brings it last has what is newer.
Status MetadataExchange::send(const MetadataPart& part, const Address& to) {
  const run::MutexLock lock(mutex_);
  TOWPATH_TRY(Bytes metadata, options_.agent->metadata(
                                  {.only = part.only, .connection_info = part.connection_info}));
  const MetadataName name(options_.agent->name(), part.label);
  if (to) return bring(to, {name, std::move(metadata)}, What::sent).status();
  return publish_here(part, metadata);
}

Status MetadataExchange::publish_here(const MetadataPart& part, ConstByteSpan metadata) {
  if (!options_.store)
    return error(Code::invalid_argument, "there is no store to leave metadata in",
                 "give an address, or a store (etcd://host:port/namespace)");
  if (part.only != nullptr && part.label.empty())
    return error(Code::invalid_argument,
                 "a partial metadata without a label would replace the full one",
                 "give it a label, and fetch it by that");
  const MetadataName name(options_.agent->name(), part.label);
  TOWPATH_TRY(options_.store->publish(name, metadata));
  note({What::sent, name, to_text({}), {}});
  return {};
}

Result<rendezvous::FetchId> MetadataExchange::bring(const Address& to, const Change& change,
                                                    What what) {
  return doors_->send_to(*to, change, run::Deadline::after(*options_.clock, options_.timeout),
                         [this, name = change.name, place = to_text(to), what](const Status& status)
                             TOWPATH_REQUIRES(mutex_) {
                               note({what, name, place, status});
                             });
}

Status MetadataExchange::invalidate(const Address& at) {
  const run::MutexLock lock(mutex_);
  const MetadataName name(options_.agent->name());
  if (at) return bring(at, {name, std::nullopt}, What::invalidated).status();
  if (!options_.store)
    return error(Code::invalid_argument, "there is no store to take metadata from",
                 "give an address, or a store (etcd://host:port/namespace)");
  TOWPATH_TRY(options_.store->withdraw(name));
  note({What::invalidated, name, to_text({}), {}});
  return {};
}

Status MetadataExchange::fetch(const MetadataName& name, const Address& from) {
  TOWPATH_TRY(rendezvous::check_name(name));
  const run::MutexLock lock(mutex_);
  if (!from && !options_.store)
    return error(Code::invalid_argument, "there is no store to ask for metadata",
                 "give an address, or a store (etcd://host:port/namespace)");
  const std::uint64_t id = next_fetch_++;
  Fetch& fetch =
      fetches_
          .emplace(id, Fetch{name, from, run::Deadline::after(*options_.clock, options_.timeout)})
          .first->second;
  if (!from) watch_store();  // before it is asked, so that no change falls between
  ask(id, fetch);
  return {};
}

void MetadataExchange::watch_store() {
  if (std::exchange(watching_, true)) return;
  options_.store->watch([this](const Change& change)
                            TOWPATH_REQUIRES(mutex_) { heard(change, true); });
}

void MetadataExchange::ask(std::uint64_t id, Fetch& fetch) {
  const auto done = [this, id](const Result<Bytes>& metadata)
                        TOWPATH_REQUIRES(mutex_) { answered(id, metadata); };
  const auto begun = fetch.from ? doors_->fetch_from(*fetch.from, fetch.name, fetch.deadline, done)
                                : options_.store->fetch(fetch.name, fetch.deadline, done);
  fetch.in_flight = begun.ok();
  fetch.again_at = options_.clock->now() + kAskAgain;
  timer_.arm(fetch.again_at);
  const bool may_begin_yet = may_come_yet(begun.code()) || begun.code() == Code::exhausted;
  if (begun.ok() || (may_begin_yet && !fetch.deadline.expired(*options_.clock))) return;
  note({What::fetched, fetch.name, to_text(fetch.from), begun.status()});
  fetches_.erase(id);
}

void MetadataExchange::answered(std::uint64_t id, const Result<Bytes>& metadata) {
  const auto found = fetches_.find(id);
  Fetch& fetch = found->second;
  fetch.in_flight = false;
  if (!metadata.ok() && may_come_yet(metadata.code()) && !fetch.deadline.expired(*options_.clock)) {
    fetch.again_at = options_.clock->now() + kAskAgain;
    return timer_.arm(fetch.again_at);
  }
  const Status status =
      metadata.ok() ? options_.agent->load_metadata(*metadata).status() : metadata.status();
  if (status.ok() && !fetch.from) followed_.insert(fetch.name.agent);
  note({What::fetched, fetch.name, to_text(fetch.from), status});
  fetches_.erase(found);
}

void MetadataExchange::drive_fetches() {
  const Instant now = options_.clock->now();
  std::vector<std::uint64_t> due;
  for (const auto& [id, fetch] : fetches_)
    if (!fetch.in_flight && fetch.again_at <= now) due.push_back(id);
  for (const std::uint64_t id : due) ask(id, fetches_.at(id));
  Instant first = Instant::never();
  for (const auto& [id, fetch] : fetches_)
    if (!fetch.in_flight) first = std::min(first, fetch.again_at);
  timer_.arm(first);
}

void MetadataExchange::heard(const Change& change, bool from_store) {
  if (from_store && !followed_.contains(change.name.agent)) return;
  const std::string place = from_store ? to_text({}) : "our listener";
  if (change.metadata)
    return note({What::brought, change.name, place,
                 options_.agent->load_metadata(*change.metadata).status()});
  if (!change.name.label.empty()) return;  // what a part has added cannot be taken away
  note({What::withdrawn, change.name, place, options_.agent->forget_peer(change.name.agent)});
}

void MetadataExchange::note(ExchangeOutcome outcome) {
  if (!outcome.status.ok())
    options_.log.warning(cat("cannot ", doing(outcome.what)),
                         {{"name", rendezvous::to_string(outcome.name)},
                          {"place", outcome.place},
                          {"why", outcome.status.to_string()}});
  if (options_.metrics != nullptr) {
    telemetry::Labels with = labels();
    with.push_back({"what", std::string(name_of(outcome.what))});
    with.push_back({"status", std::string(name_of(outcome.status.code()))});
    options_.metrics->counter("towpath_metadata_total", std::move(with)).add();
    gauge_store();
  }
  if (outcomes_.size() == kMaxOutcomes) outcomes_.pop_front();
  outcomes_.push_back(std::move(outcome));
}

void MetadataExchange::gauge_store() {
  if (options_.metrics == nullptr || !options_.store) return;
  const rendezvous::Standing now = options_.store->standing();
  options_.metrics->gauge("towpath_metadata_store_up", labels()).set(now.trouble.ok() ? 1 : 0);
  options_.metrics->gauge("towpath_metadata_store_pending", labels())
      .set(static_cast<std::int64_t>(now.pending));
}

std::vector<ExchangeOutcome> MetadataExchange::take_outcomes() {
  const run::MutexLock lock(mutex_);
  std::vector<ExchangeOutcome> taken(std::make_move_iterator(outcomes_.begin()),
                                     std::make_move_iterator(outcomes_.end()));
  outcomes_.clear();
  return taken;
}

std::size_t MetadataExchange::progress() {
  const run::MutexLock lock(mutex_);
  timer_.clear();
  std::size_t called = doors_->progress();
  if (options_.store) called += options_.store->progress();
  drive_fetches();
  gauge_store();
  return called;
}

Status MetadataExchange::start_thread() {
  TOWPATH_TRY(worker_, run::Worker::start("cards", [this](const run::StopToken& stop) {
                auto poller = run::Poller::open();
                if (!poller.ok() || !poller->add(wait_fd(), 0).ok() ||
                    !poller->add(stop.fd(), kStopTag).ok())
                  return options_.log.error("no descriptor is free to exchange metadata with");
                while (!stop.stop_requested()) {
                  progress();
                  (void)poller->wait(Duration::max());
                }
              }));
  return {};
}

}  // namespace towpath::standard
