// PeerClient: asks the listeners of other agents for metadata, and brings them metadata.
//
// Each request is a connection of its own, with a deadline; nothing blocks. At a Unix socket the
// process at the other end must run as the same user or as root, since anybody may take an abstract
// address first; over TCP it proves itself by TLS, as we do, before anything is asked or given.
// Invariants: each request is answered exactly once unless cancelled, by its deadline at the
// latest. Thread: one at a time. Callbacks run inside progress(), and may call everything but
// progress().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include <sys/types.h>

#include <towpath/net/address.h>
#include <towpath/net/tls/tls_context.h>
#include <towpath/rendezvous/frame.h>
#include <towpath/rendezvous/rendezvous.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/run/waker.h>

namespace towpath::rendezvous {

struct PeerClientOptions {
  std::size_t max_requests = 256;                      ///< at a time
  std::size_t max_metadata_bytes = kMaxMetadataBytes;  ///< of metadata that is fetched
  uid_t trusted_user = static_cast<uid_t>(-1);  ///< beside root; -1: the user of this process
  net::TlsProvider tls;                         ///< asked at the first TCP address
};

class PeerClient {
 public:
  using PushDone = std::function<void(Status)>;

  /// `clock` must outlive the client. Errors: exhausted (no descriptor is free).
  static Result<std::unique_ptr<PeerClient>> open(PeerClientOptions options, const Clock& clock);
  ~PeerClient();
  PeerClient(const PeerClient&) = delete;
  PeerClient& operator=(const PeerClient&) = delete;

  /// Asks who listens at `from` for metadata. A host that is a name is looked up at once (see
  /// net::resolve); its addresses are dialled in turn, each for 250 ms at first, until one
  /// connects. Errors now: invalid_argument, exhausted (too many requests), denied (TCP without
  /// TLS), and those of resolve() and options.tls. Closed without a word, it connects again until
  /// the deadline: a listener that has no place for us closes so, and may have one soon. Errors
  /// heard: not_found (nobody listens at this local address, or not under this name), unavailable
  /// (nobody listens at this TCP address, or it closed in the middle of an answer, or without one
  /// until the deadline), timed_out, denied (another user listens, or one of us has not proven
  /// itself), corrupt.
  Result<FetchId> fetch(const net::Address& from, const MetadataName& name, run::Deadline deadline,
                        FetchDone done);
  /// Brings metadata, or the word that it is withdrawn, to who listens at `to`. Errors as above,
  /// and whatever the other side refuses it with. It may arrive more than once, and after timed_out
  /// or unavailable it may have arrived all the same.
  Result<FetchId> push(const net::Address& to, const Change& change, run::Deadline deadline,
                       PushDone done);
  /// Its callback is not called any more. An unknown or answered request is no error.
  void cancel(FetchId request);
  /// The same of all that was asked; what is being brought goes on.
  void cancel_fetches();

  /// Returns how many callbacks were called. Cost: nothing while there are no requests.
  std::size_t progress();
  /// Readable when progress() has something to do.
  int wait_fd() const noexcept { return poller_.fd(); }
  std::size_t request_count() const noexcept { return requests_.size(); }

 private:
  struct Request;
  using Requests = std::map<FetchId, Request>;

  PeerClient(PeerClientOptions options, const Clock& clock, std::unique_ptr<run::Waker> waker,
             run::Poller poller, run::TimerFd timer);
  Result<FetchId> begin(Request request);
  Result<std::optional<Bytes>> step(FetchId id, Request& request);
  Status connect(FetchId id, Request& request);
  Result<std::unique_ptr<sys::ByteStream>> reach(const Request& request) const;
  bool try_next_endpoint(Request& request, const Status& failed);
  void leave_endpoint(Request& request);
  bool connect_again(Request& request, const Status& failed);
  void close(Request& request);
  Result<std::optional<Bytes>> talk(FetchId id, Request& request);
  void arm_timer();

  PeerClientOptions options_;
  const Clock* clock_;
  std::unique_ptr<run::Waker> waker_;
  run::Poller poller_;
  run::TimerFd timer_;
  Requests requests_;
  FetchId next_request_;
};

}  // namespace towpath::rendezvous
