#include <string_view>
#include <utility>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/rendezvous/peer_rendezvous.h>
#include <towpath/rendezvous/scope.h>

namespace towpath::rendezvous {

Result<std::unique_ptr<PeerRendezvous>> PeerRendezvous::open(PeerRendezvousOptions options,
                                                             const Clock& clock) {
  TOWPATH_TRY(address_in_scope(options.scope, "a").status());
  options.client.tls = options.tls;
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(auto client, PeerClient::open(options.client, clock));
  TOWPATH_TRY(poller.add(client->wait_fd(), 0));
  std::unique_ptr<PeerRendezvous> made(
      new PeerRendezvous(std::move(options), clock, std::move(poller), std::move(client)));
  TOWPATH_TRY(made->open_door());
  return made;
}

PeerRendezvous::PeerRendezvous(PeerRendezvousOptions options, const Clock& clock,
                               run::Poller poller, std::unique_ptr<PeerClient> client)
    : options_(std::move(options)),
      clock_(&clock),
      poller_(std::move(poller)),
      client_(std::move(client)) {}

Status PeerRendezvous::open_door() {
  if (!options_.door) return {};
  PeerListenerOptions options = options_.listener;
  options.address = *options_.door;
  if (!net::is_local(options.address)) {
    TOWPATH_TRY(options.tls, net::context_from(options_.tls));
  }
  TOWPATH_TRY(door_, PeerListener::open(std::move(options), *clock_));
  door_->on_change([this](const Change& change) { return heard(change); });
  return poller_.add(door_->wait_fd(), 0);
}

std::optional<net::Address> PeerRendezvous::door() const {
  return door_ ? std::optional(door_->address()) : std::nullopt;
}

Result<PeerListener*> PeerRendezvous::listener_of(const std::string& agent) {
  if (const auto found = listeners_.find(agent); found != listeners_.end())
    return found->second.get();
  PeerListenerOptions options = options_.listener;
  TOWPATH_TRY(options.address, address_in_scope(options_.scope, agent));
  TOWPATH_TRY(auto listener, PeerListener::open(std::move(options), *clock_));
  TOWPATH_TRY(poller_.add(listener->wait_fd(), 0));
  listener->on_change([this](const Change& change) { return heard(change); });
  return listeners_.emplace(agent, std::move(listener)).first->second.get();
}

Status PeerRendezvous::heard(const Change& change) {
  if (!seen_) return error(Code::unsupported, "nobody watches here");
  const ChangeSeen seen = seen_;  // a copy: it may replace itself
  seen(change);
  ++heard_;
  return {};
}

Status PeerRendezvous::publish(const MetadataName& name, ConstByteSpan metadata) {
  TOWPATH_TRY(check_name(name));
  TOWPATH_TRY(check_metadata(metadata));
  if (!has_scope()) return door_->publish(name, metadata);
  TOWPATH_TRY(PeerListener * listener, listener_of(name.agent));
  TOWPATH_TRY(listener->publish(name, metadata));
  return door_ ? door_->publish(name, metadata) : Status();
}

void PeerRendezvous::on_ask(PeerListener::Provide provide) {
  if (door_) door_->on_ask(std::move(provide));
}

Status PeerRendezvous::withdraw(const MetadataName& name) {
  if (!has_scope()) return door_->withdraw(name);
  const auto found = listeners_.find(name.agent);
  if (found == listeners_.end())
    return error(Code::not_found, cat(to_string(name), " was not published from here"));
  TOWPATH_TRY(found->second->withdraw(name));
  if (door_) TOWPATH_TRY(door_->withdraw(name));
  if (found->second->metadata_count() > 0) return {};
  found->second->stop_listening();
  (void)poller_.remove(found->second->wait_fd());
  closing_.push_back(std::move(found->second));
  listeners_.erase(found);
  return {};
}

Result<FetchId> PeerRendezvous::fetch(const MetadataName& name, run::Deadline deadline,
                                      FetchDone done) {
  TOWPATH_TRY(check_name(name));
  TOWPATH_TRY(const net::Address address, address_in_scope(options_.scope, name.agent));
  return client_->fetch(address, name, deadline, std::move(done));
}

Result<FetchId> PeerRendezvous::fetch_from(const net::Address& from, const MetadataName& name,
                                           run::Deadline deadline, FetchDone done) {
  return client_->fetch(from, name, deadline, std::move(done));
}

Result<FetchId> PeerRendezvous::send_to(const net::Address& to, const Change& change,
                                        run::Deadline deadline, PeerClient::PushDone done) {
  return client_->push(to, change, deadline, std::move(done));
}

Result<FetchId> PeerRendezvous::push(std::string_view to, const Change& change,
                                     run::Deadline deadline, PeerClient::PushDone done) {
  TOWPATH_TRY(check_name(to));
  TOWPATH_TRY(const net::Address address, address_in_scope(options_.scope, to));
  return client_->push(address, change, deadline, std::move(done));
}

std::size_t PeerRendezvous::progress() {
  heard_ = 0;
  std::vector<PeerListener*> listeners;  // callbacks may publish and withdraw
  for (const auto& [name, listener] : listeners_) listeners.push_back(listener.get());
  for (PeerListener* listener : listeners) listener->progress();
  if (door_) door_->progress();
  const std::size_t answered = client_->progress();
  closing_.clear();
  return heard_ + answered;
}

}  // namespace towpath::rendezvous
