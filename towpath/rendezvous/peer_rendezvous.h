// The rendezvous of agents on one machine, without a server: each listens under its own name.
//
// All agents of one `scope` (a job, a user, a test) find each other by name alone: the name gives
// the abstract socket address. Publishing opens a listener, fetching asks the other's listener.
// Who is on another machine knocks at the `door`, a listener at an address that is reported to
// others by other means, and is asked at its own (send_to, fetch_from). Nobody keeps a list, so
// watch() hears only what others send to here. Thread: one at a time; see Rendezvous.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/rendezvous/peer_client.h>
#include <towpath/rendezvous/peer_listener.h>
#include <towpath/rendezvous/rendezvous.h>

namespace towpath::rendezvous {

struct PeerRendezvousOptions {
  std::string scope;                 ///< at most kMaxScope bytes; empty, with a door: none
  std::optional<net::Address> door;  ///< opened at once; it gives every metadata published here
  net::TlsProvider tls;              ///< of the door, and for those of others, over TCP
  PeerListenerOptions listener;      ///< its address and TLS are not used
  PeerClientOptions client;          ///< its TLS is not used
};

class PeerRendezvous final : public Rendezvous {
 public:
  /// `clock` must outlive it. Errors: invalid_argument (the scope), exhausted,
  /// PeerListener::open's.
  static Result<std::unique_ptr<PeerRendezvous>> open(PeerRendezvousOptions options,
                                                      const Clock& clock);

  /// Errors as Rendezvous, and already_exists (another agent of the scope has this name).
  Status publish(const MetadataName& name, ConstByteSpan metadata) override;
  Status withdraw(const MetadataName& name) override;
  Result<FetchId> fetch(const MetadataName& name, run::Deadline deadline, FetchDone done) override;
  void cancel(FetchId fetch) override { client_->cancel(fetch); }
  void watch(ChangeSeen seen) override { seen_ = std::move(seen); }
  std::size_t progress() override;
  int wait_fd() const noexcept override { return poller_.fd(); }

  /// Notifies agent `to` of the scope of a change, so that its watch() hears of it.
  Result<FetchId> push(std::string_view to, const Change& change, run::Deadline deadline,
                       PeerClient::PushDone done);

  /// Asks the caller that listens at `from`; brings a change (metadata, or that it is withdrawn) to
  /// the caller that listens at `to`. Errors: PeerClient's.
  Result<FetchId> fetch_from(const net::Address& from, const MetadataName& name,
                             run::Deadline deadline, FetchDone done);
  Result<FetchId> send_to(const net::Address& to, const Change& change, run::Deadline deadline,
                          PeerClient::PushDone done);
  /// Of the door: see PeerListener. Without a door it is never called.
  void on_ask(PeerListener::Provide provide);
  /// Where others knock: with the port that the kernel chose. Nothing: there is no door.
  std::optional<net::Address> door() const;

 private:
  PeerRendezvous(PeerRendezvousOptions options, const Clock& clock, run::Poller poller,
                 std::unique_ptr<PeerClient> client);
  bool has_scope() const { return !options_.scope.empty() || !door_; }
  Status open_door();
  Result<PeerListener*> listener_of(const std::string& agent);
  Status heard(const Change& change);

  PeerRendezvousOptions options_;
  const Clock* clock_;
  run::Poller poller_;
  std::unique_ptr<PeerClient> client_;
  std::unique_ptr<PeerListener> door_;
  std::map<std::string, std::unique_ptr<PeerListener>> listeners_;
  // Withdrawn by a callback, perhaps while it serves: closed when progress() is over.
  std::vector<std::unique_ptr<PeerListener>> closing_;
  ChangeSeen seen_;
  std::size_t heard_ = 0;
};

}  // namespace towpath::rendezvous
