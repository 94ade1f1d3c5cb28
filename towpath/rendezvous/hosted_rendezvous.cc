#include <algorithm>
#include <new>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/rendezvous/hosted_rendezvous.h>
#include <towpath/rendezvous/poller_tags.h>

namespace towpath::rendezvous {

namespace {

constexpr Duration kRetryAfter = std::chrono::milliseconds(100);
constexpr Duration kBringTimeout = std::chrono::seconds(5);

}  // namespace

Result<std::unique_ptr<HostedRendezvous>> HostedRendezvous::open(HostedRendezvousOptions options,
                                                                 const Clock& clock) {
  options.client.tls = options.tls;
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  TOWPATH_TRY(auto client, PeerClient::open(options.client, clock));
  TOWPATH_TRY(poller.add(client->wait_fd(), 0));
  TOWPATH_TRY(poller.add(timer.fd(), kTimerTag));
  std::unique_ptr<HostedRendezvous> made(new HostedRendezvous(
      std::move(options), clock, std::move(poller), std::move(timer), std::move(client)));
  if (made->options_.hosts) made->hosting_ = made->host();
  const Code hosting = made->hosting_.code();
  if (hosting != Code::ok && hosting != Code::already_exists && hosting != Code::not_found)
    return made->hosting_;
  return made;
}

HostedRendezvous::HostedRendezvous(HostedRendezvousOptions options, const Clock& clock,
                                   run::Poller poller, run::TimerFd timer,
                                   std::unique_ptr<PeerClient> client)
    : options_(std::move(options)),
      clock_(&clock),
      poller_(std::move(poller)),
      timer_(std::move(timer)),
      client_(std::move(client)) {}

Status HostedRendezvous::host() {
  PeerListenerOptions options = options_.listener;
  options.address = options_.address;
  if (!net::is_local(options.address)) {
    TOWPATH_TRY(options.tls, net::context_from(options_.tls));
  }
  TOWPATH_TRY(listener_, PeerListener::open(std::move(options), *clock_));
  options_.address = listener_->address();
  listener_->on_change([this](const Change& change) {
    TOWPATH_TRY(take(change));
    if (const ChangeSeen seen = seen_) seen(change);
    ++reported_;
    return Status();
  });
  return poller_.add(listener_->wait_fd(), 0);
}

// A farewell makes progress, and users hear nothing of that.
HostedRendezvous::~HostedRendezvous() {
  seen_ = nullptr;
  client_->cancel_fetches();
  try {
    say_farewell();
  } catch (const std::bad_alloc&) {  // as one that is killed
  }
}

void HostedRendezvous::say_farewell() {
  if (is_host() || !trouble_.ok()) return;
  std::vector<MetadataName> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  for (const MetadataName& name : names) (void)withdraw(name);
  const auto deadline = run::Deadline::after(*clock_, options_.farewell_timeout);
  while (!entries_.empty() && trouble_.ok() && !deadline.expired(*clock_)) {
    progress();
    (void)poller_.wait(std::min(kRetryAfter, deadline.remaining(*clock_)));
  }
}

// Keeps, or forgets, metadata at the host.
Status HostedRendezvous::take(const Change& change) {
  if (!change.metadata) {
    std::erase_if(sizes_, [&](const auto& each) {
      if (!covers(change.name, each.first)) return false;
      total_bytes_ -= each.second;
      return true;
    });
    return listener_->withdraw(change.name);
  }
  const auto old = sizes_.find(change.name);
  const std::size_t before = old == sizes_.end() ? 0 : old->second;
  const std::size_t after = total_bytes_ - before + change.metadata->size();
  if (after > options_.max_bytes || (old == sizes_.end() && sizes_.size() >= options_.max_metadata))
    return error(Code::exhausted,
                 cat("the rendezvous host holds ", sizes_.size(), " agents' metadata of ",
                     format_bytes(total_bytes_)),
                 "use an etcd for so many");
  TOWPATH_TRY(listener_->publish(change.name, *change.metadata));
  sizes_.insert_or_assign(change.name, change.metadata->size());
  total_bytes_ = after;
  return {};
}

Status HostedRendezvous::drop(const MetadataName& name) {
  if (!is_host())
    return error(Code::unsupported, cat(to_string(name), " is the host's"), "drop it there");
  return take({name, std::nullopt});
}

Status HostedRendezvous::publish(const MetadataName& name, ConstByteSpan metadata) {
  TOWPATH_TRY(check_name(name));
  TOWPATH_TRY(check_metadata(metadata));
  Bytes bytes(metadata.begin(), metadata.end());
  if (is_host()) TOWPATH_TRY(take({name, bytes}));
  Entry& entry = entries_[name];
  entry.metadata = std::move(bytes);
  entry.settled = is_host();
  ++entry.version;
  timer_.arm(Instant{0});
  return {};
}

Status HostedRendezvous::withdraw(const MetadataName& name) {
  std::size_t count = 0;
  for (auto each = entries_.begin(); each != entries_.end();) {
    const auto current = each++;
    Entry& entry = current->second;
    if (!covers(name, current->first) || !entry.metadata) continue;
    ++count;
    if (is_host()) {
      // not_found: it went with the one before, or a guest has withdrawn it.
      (void)take({current->first, std::nullopt});
      entries_.erase(current);
      continue;
    }
    entry.metadata.reset();
    entry.settled = false;
    ++entry.version;
  }
  timer_.arm(Instant{0});
  if (count > 0) return {};
  return error(Code::not_found, cat(to_string(name), " was not published from here"));
}

Standing HostedRendezvous::standing() const {
  const auto pending =
      std::ranges::count_if(entries_, [](const auto& each) { return !each.second.settled; });
  return {.pending = static_cast<std::size_t>(pending), .trouble = trouble_};
}

void HostedRendezvous::drive() {
  if (clock_->now() < retry_at_) return timer_.arm(retry_at_);
  for (auto& [name, entry] : entries_)
    if (!entry.settled && !entry.in_flight) bring(name, entry);
}

void HostedRendezvous::bring(const MetadataName& name, Entry& entry) {
  const auto begun = client_->push(
      options_.address, {name, entry.metadata}, run::Deadline::after(*clock_, kBringTimeout),
      [this, name, version = entry.version, withdraws = !entry.metadata](const Status& status) {
        if (withdraws) renew(name);
        brought(name, version, status);
      });
  entry.in_flight = begun.ok();
  if (begun.ok()) return;
  if (begun.code() != Code::exhausted) trouble_ = begun.status();  // else others are on their way
  retry_at_ = clock_->now() + kRetryAfter;
  timer_.arm(retry_at_);
}

// A withdrawal of all takes along what was published of the agent since, and arrived before it.
void HostedRendezvous::renew(const MetadataName& withdrawn) {
  for (auto& [name, entry] : entries_) {
    if (!covers(withdrawn, name) || !entry.metadata) continue;
    entry.settled = false;
    ++entry.version;
  }
}

void HostedRendezvous::brought(const MetadataName& name, std::uint64_t version,
                               const Status& status) {
  const auto found = entries_.find(name);
  Entry& entry = found->second;
  entry.in_flight = false;
  const bool is_gone = !entry.metadata && status.code() == Code::not_found;
  if (!status.ok() && !is_gone) {
    trouble_ = status;
    retry_at_ = clock_->now() + kRetryAfter;
    return;
  }
  trouble_ = {};
  entry.settled = entry.version == version;
  if (entry.settled && !entry.metadata) entries_.erase(found);
}

std::size_t HostedRendezvous::progress() {
  reported_ = 0;
  timer_.clear();
  if (listener_) listener_->progress();
  const std::size_t answered = client_->progress();
  drive();
  return reported_ + answered;
}

}  // namespace towpath::rendezvous
