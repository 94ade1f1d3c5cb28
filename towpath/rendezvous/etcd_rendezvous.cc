#include <algorithm>
#include <new>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/rendezvous/etcd_rendezvous.h>
#include <towpath/rendezvous/poller_tags.h>

namespace towpath::rendezvous {

namespace {

constexpr std::uint64_t kClientTag = 0;
constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr std::size_t kMostInFlight = 16;  // metadata on their way at a time
// Beside fetches and those: login, lease, listing or stream, a value that is read, probe, farewell.
constexpr std::size_t kOtherRequests = 8;
constexpr std::chrono::seconds kMaxTtl{24 * 3600};

bool is_out_of_reach(Code code) { return code == Code::unavailable || code == Code::timed_out; }

}  // namespace

Result<std::unique_ptr<EtcdRendezvous>> EtcdRendezvous::open(EtcdOptions options,
                                                             const Clock& clock) {
  if (options.lease_ttl.count() < 1 || options.lease_ttl > kMaxTtl)
    return error(Code::invalid_argument, cat("a lease of ", options.lease_ttl.count(), " s"),
                 "use 1 second to a day");
  TOWPATH_TRY(etcd::Keys keys, etcd::Keys::in(options.name_space));
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  options.client.max_requests = options.max_fetches + kMostInFlight + kOtherRequests;
  TOWPATH_TRY(auto client, etcd::Client::open(options.client));
  TOWPATH_TRY(poller.add(client->wait_fd(), kClientTag));
  TOWPATH_TRY(poller.add(timer.fd(), kTimerTag));
  return std::unique_ptr<EtcdRendezvous>(new EtcdRendezvous(std::move(options), std::move(keys),
                                                            clock, std::move(poller),
                                                            std::move(timer), std::move(client)));
}

EtcdRendezvous::EtcdRendezvous(EtcdOptions options, etcd::Keys keys, const Clock& clock,
                               run::Poller poller, run::TimerFd timer,
                               std::unique_ptr<etcd::Client> client)
    : options_(std::move(options)),
      cipher_(options_.token ? std::optional<etcd::Cipher>(*options_.token) : std::nullopt),
      keys_(std::move(keys)),
      clock_(&clock),
      poller_(std::move(poller)),
      timer_(std::move(timer)),
      client_(std::move(client)),
      watcher_(*client_, keys_, clock,
               {.is_mine = [this](etcd::LeaseId lease) { return past_leases_.contains(lease); },
                .report = [this](Change change) { heard(std::move(change)); },
                .answered = [this] { watched(); },
                .failed = [this](const Status& why) { failed(why); },
                .grace = Duration(options_.lease_ttl)}) {}

// A farewell makes progress, and users hear nothing of that. A forked child takes no leave, and
// does not close connections either: it has the parent's, and over TLS that would be a word on
// them.
EtcdRendezvous::~EtcdRendezvous() {
  if (fork_mark_.is_inherited()) {
    (void)client_.release();
    return;
  }
  seen_ = nullptr;
  fetches_.clear();
  watcher_.stop();
  try {
    say_farewell();
  } catch (const std::bad_alloc&) {  // its lease ends by itself
  }
}

void EtcdRendezvous::say_farewell() {
  if (lease_ == 0 || !trouble_.ok()) return;  // then its end comes by itself
  bool done = false;
  client_->call(etcd::revoke(lease_), [&done](const Result<std::string>&) { done = true; });
  const auto deadline = run::Deadline::after(*clock_, options_.farewell_timeout);
  while (!done && !deadline.expired(*clock_)) {
    (void)poller_.wait(std::min<Duration>(deadline.remaining(*clock_), kFirstPause));
    timer_.clear();
    client_->progress();
  }
}

Status EtcdRendezvous::publish(const MetadataName& name, ConstByteSpan metadata) {
  TOWPATH_TRY(check_name(name));
  TOWPATH_TRY(check_metadata(metadata, std::min(kMaxMetadataBytes, options_.max_metadata_bytes)));
  Entry& entry = entries_[name];
  entry.metadata = Bytes(metadata.begin(), metadata.end());
  entry.settled = entry.taken = false;
  ++entry.version;
  timer_.arm(Instant{0});
  return {};
}

Status EtcdRendezvous::withdraw(const MetadataName& name) {
  std::size_t count = 0;
  for (auto& [each, entry] : entries_) {
    if (!covers(name, each) || !entry.metadata) continue;
    entry.metadata.reset();
    entry.settled = entry.taken = false;
    ++entry.version;
    ++count;
  }
  timer_.arm(Instant{0});
  if (count > 0) return {};
  return error(Code::not_found, cat(to_string(name), " was not published from here"));
}

Standing EtcdRendezvous::standing() const {
  Standing now{.pending = 0, .trouble = trouble_};
  for (const auto& [name, entry] : entries_) {
    if (!entry.settled) ++now.pending;
    if (entry.taken && now.trouble.ok()) now.trouble = taken_by_another(name);
  }
  return now;
}

Result<FetchId> EtcdRendezvous::fetch(const MetadataName& name, run::Deadline deadline,
                                      FetchDone done) {
  TOWPATH_TRY(check_name(name));
  if (fetches_.size() >= options_.max_fetches)
    return error(Code::exhausted, cat(fetches_.size(), " fetches are under way"),
                 "wait for some to end, or raise max_fetches");
  const FetchId id = next_fetch_++;
  Fetch& fetch = fetches_.emplace(id, Fetch{name, deadline, std::move(done)}).first->second;
  fetch.call = client_->call(etcd::range({.key = keys_.key(name)}),
                             [this, id](const Result<std::string>& body) { answered(id, body); });
  timer_.arm(Instant{0});
  return id;
}

void EtcdRendezvous::cancel(FetchId fetch) {
  const auto found = fetches_.find(fetch);
  if (found == fetches_.end()) return;
  client_->cancel(found->second.call);
  fetches_.erase(found);
}

void EtcdRendezvous::answered(FetchId id, const Result<std::string>& body) {
  auto fetch = fetches_.extract(id);
  if (fetch.empty()) return;
  ++answered_;
  if (!body.ok()) {
    if (is_out_of_reach(body.code())) failed(body.status());
    return fetch.mapped().done(is_out_of_reach(body.code()) ? trouble_ : body.status());
  }
  reached();
  fetch.mapped().done(found(fetch.mapped().name, body));
}

Result<Bytes> EtcdRendezvous::found(const MetadataName& name,
                                    const Result<std::string>& body) const {
  TOWPATH_TRY(auto reply, etcd::parse_range(*body));
  if (!reply.pairs.empty()) return readable(name, std::move(reply.pairs.front().value));
  return error(Code::not_found, "nobody has published this metadata",
               "start that agent, or check its name and the namespace");
}

Result<Bytes> EtcdRendezvous::readable(const MetadataName& name, Bytes value) const {
  if (cipher_) return cipher_->decrypt(keys_.key(name), value);
  if (!etcd::is_encrypted(value)) return value;
  return error(Code::denied, "these metadata are encrypted, and we have no token",
               "give this agent the token file that the other has");
}

// What a process without the token leaves there is as if it were not there.
void EtcdRendezvous::heard(Change change) {
  if (change.metadata) {
    auto metadata = readable(change.name, *std::move(change.metadata));
    if (!metadata.ok())
      return options_.log.warning(
          "metadata in etcd are not of ours, and are ignored",
          {{"name", to_string(change.name)}, {"why", metadata.status().to_string()}});
    change.metadata = *std::move(metadata);
  }
  changes_.push_back(std::move(change));
}

void EtcdRendezvous::watch(ChangeSeen seen) {
  seen_ = std::move(seen);
  if (!seen_) watcher_.stop();
  changes_.clear();
  timer_.arm(Instant{0});
}

std::size_t EtcdRendezvous::progress() {
  answered_ = 0;
  timer_.clear();
  client_->progress();
  drive();
  if (watcher_.is_streaming()) watcher_.report_losses(clock_->now());
  const std::size_t called = end_late_fetches() + report_changes();
  arm_timer();
  return called + answered_;
}

// What is due now, unless etcd was found away a moment ago.
void EtcdRendezvous::drive() {
  if (clock_->now() < retry_at_) return;
  if (seen_ && watcher_.is_off()) {
    probe_at_ = clock_->now() + Duration(options_.lease_ttl) / 3;
    watcher_.start();
  }
  if (entries_.empty()) return probe();
  if (lease_ == 0) return ask_for_lease();
  if (clock_->now() >= keep_at_) keep_lease();
  for (auto& [name, entry] : entries_)
    if (entry.is_due() && in_flight_ < kMostInFlight)
      entry.settled ? check(name, entry) : bring(name, entry);
}

// By a question that only an etcd answers that is one with the others.
void EtcdRendezvous::probe() {
  if (!watcher_.is_streaming() || clock_->now() < probe_at_) return;
  if (std::exchange(probe_call_, true)) return;
  const auto done = [this](const Result<std::string>& body) {
    probe_call_ = false;
    body.ok() ? reached() : failed(body.status());
  };
  client_->call(etcd::range({.key = keys_.prefix(), .limit = 1, .keys_only = true}), done,
                Duration(options_.lease_ttl) / 3);
}

bool EtcdRendezvous::has_due() const {
  return in_flight_ < kMostInFlight &&
         std::ranges::any_of(entries_, [](const auto& each) { return each.second.is_due(); });
}

void EtcdRendezvous::ask_for_lease() {
  if (std::exchange(lease_call_, true)) return;
  client_->call(etcd::grant(options_.lease_ttl), [this](const Result<std::string>& body) {
    lease_call_ = false;
    const auto lease = body.ok() ? etcd::parse_grant(*body) : body.status();
    if (!lease.ok()) return failed(lease.status());
    worked();
    lease_ = lease->id;
    past_leases_.insert(lease_);
    kept(lease->ttl);
  });
}

// An endpoint that stands still must not use up what the lease has left.
void EtcdRendezvous::keep_lease() {
  if (std::exchange(lease_call_, true)) return;
  const auto done = [this](const Result<std::string>& body) {
    lease_call_ = false;
    const auto lease = body.ok() ? etcd::parse_keep_alive(*body) : body.status();
    if (!lease.ok()) return failed(lease.status());
    worked();
    if (lease->ttl.count() <= 0) return lose_lease();
    kept(lease->ttl);
    for (auto& [name, entry] : entries_) entry.check_due = true;
  };
  client_->call(etcd::keep_alive(lease_), done, keep_every_);
}

void EtcdRendezvous::kept(std::chrono::seconds ttl) {
  keep_every_ = Duration(ttl) / 3;
  keep_at_ = clock_->now() + keep_every_;
}

// It has run out, or etcd has lost its memory: all metadata is published again, under another
// lease; but a name that another has taken stays with it.
void EtcdRendezvous::lose_lease() {
  lease_ = 0;
  for (auto& [name, entry] : entries_) entry.settled = entry.taken;
  options_.log.warning("etcd has let the lease of our metadata go; it is published again",
                       {{"cards", cat(entries_.size())}});
}

void EtcdRendezvous::bring(const MetadataName& name, Entry& entry) {
  entry.in_flight = true;
  ++in_flight_;
  const std::string key = keys_.key(name);
  Bytes encrypted;
  if (entry.metadata && cipher_) encrypted = cipher_->encrypt(key, *entry.metadata);
  client_->call(
      entry.metadata
          ? etcd::put({.key = key, .value = cipher_ ? encrypted : *entry.metadata, .lease = lease_})
          : etcd::remove(key, lease_),
      [this, name, version = entry.version, lease = lease_](const Result<std::string>& body) {
        brought(name, version, lease, body.status());
      });
}

// An answer may come when the lease that it was put under has gone, and what was put with it.
void EtcdRendezvous::brought(const MetadataName& name, std::uint64_t version, std::int64_t lease,
                             const Status& status) {
  const auto found = entries_.find(name);
  Entry& entry = found->second;
  entry.in_flight = false;
  --in_flight_;
  const bool is_current = lease == lease_;
  if (status.code() == Code::not_found) return is_current ? lose_lease() : void();
  if (!status.ok()) return failed(status);
  worked();
  if (entry.version != version || (entry.metadata && !is_current)) return;  // again
  entry.settled = true;
  entry.taken = entry.check_due = false;
  if (!entry.metadata) entries_.erase(found);
}

void EtcdRendezvous::check(const MetadataName& name, Entry& entry) {
  entry.check_due = false;
  entry.in_flight = true;
  ++in_flight_;
  client_->call(etcd::range({.key = keys_.key(name), .keys_only = true}),
                [this, name, version = entry.version](const Result<std::string>& body) {
                  checked(name, version, body);
                });
}

// What somebody has removed is brought again. What another has published since stays, or two that
// live would remove each other's in turns: that is reported.
void EtcdRendezvous::checked(const MetadataName& name, std::uint64_t version,
                             const Result<std::string>& body) {
  Entry& entry = entries_.find(name)->second;
  entry.in_flight = false;
  --in_flight_;
  const auto reply = body.ok() ? etcd::parse_range(*body) : body.status();
  if (!reply.ok()) return failed(reply.status());
  reached();
  if (entry.version != version || !entry.settled) return;  // it is brought in any case
  entry.settled = !reply->pairs.empty();
  entry.taken = entry.settled && !past_leases_.contains(reply->pairs.front().lease);
}

void EtcdRendezvous::failed(const Status& why) {
  const bool away = is_out_of_reach(why.code());
  const Status reported =
      away ? error(Code::unavailable, cat("the etcd at ", client_->endpoint(), " does not answer"),
                   "start it, or check the address; metadata that is loaded keeps working")
                 .because(why)
           : why;
  if (trouble_.code() != reported.code())
    options_.log.warning("etcd is of no help now", {{"why", reported.to_string()}});
  trouble_ = reported;
  pause_ = std::clamp(pause_ * 2, kFirstPause, options_.longest_pause);
  retry_at_ = clock_->now() + pause_;
  if (!away) return;
  keep_at_ = retry_at_;  // first of all: does the lease still live?
  watcher_.stop();       // a stream may be dead and not know it
}

void EtcdRendezvous::worked() {
  pause_ = Duration::zero();
  if (!trouble_.ok()) recover();
}

// By a question: etcd answers, which does not prove that it takes what we publish.
void EtcdRendezvous::reached() {
  probe_at_ = clock_->now() + Duration(options_.lease_ttl) / 3;
  if (is_out_of_reach(trouble_.code())) recover();
}

// By the stream: that is all that is wanted of etcd where nothing is published from here.
void EtcdRendezvous::watched() {
  reached();
  if (entries_.empty()) worked();
}

void EtcdRendezvous::recover() {
  trouble_ = {};
  options_.log.info("etcd answers again");
}

std::size_t EtcdRendezvous::end_late_fetches() {
  std::vector<FetchId> late;
  for (const auto& [id, fetch] : fetches_)
    if (fetch.deadline.expired(*clock_)) late.push_back(id);
  for (const FetchId id : late) {
    auto fetch = fetches_.extract(id);
    if (fetch.empty()) continue;  // cancelled by the one before
    client_->cancel(fetch.mapped().call);
    fetch.mapped().done(error(Code::timed_out,
                              cat("the etcd at ", client_->endpoint(), " has not answered in time"),
                              "wait longer, or see what keeps it busy"));
  }
  return late.size();
}

std::size_t EtcdRendezvous::report_changes() {
  std::size_t called = 0;
  for (const Change& change : std::exchange(changes_, {})) {
    const ChangeSeen seen = seen_;  // a copy: it may replace itself
    if (!seen) break;
    seen(change);
    ++called;
  }
  return called;
}

void EtcdRendezvous::arm_timer() {
  Instant first = Instant::never();
  for (const auto& [id, fetch] : fetches_) first = std::min(first, fetch.deadline.at());
  if (watcher_.is_streaming()) first = std::min(first, watcher_.next_loss());
  if (seen_ && watcher_.is_off()) first = std::min(first, retry_at_);
  if (entries_.empty() && watcher_.is_streaming() && !probe_call_)
    first = std::min(first, std::max(probe_at_, retry_at_));
  if (!entries_.empty() && !lease_call_)
    first = std::min(first, lease_ == 0 || has_due() ? retry_at_ : std::max(keep_at_, retry_at_));
  timer_.arm(first);
}

}  // namespace towpath::rendezvous
