// PeerListener: one agent's ear, on a Unix or TCP socket. It serves the agent's metadata to who
// asks, and takes metadata and withdrawals that others bring.
//
// Clients are not trusted to behave: what each may hold is bounded in bytes and in time, and a
// frame is bounded before it is stored. Where all places are taken, net/unproven.h says which
// client goes for a newcomer, of those that have proven nothing so far; one that has proven itself
// never goes, and where none goes the newcomer is refused (PeerClient connects again). Metadata is
// a capability, so nobody gets one without proof: on a Unix socket the kernel names the other
// side's user (SO_PEERCRED), on TCP both sides prove themselves by TLS (net/tls/tls_context.h). Who
// does not is refused, counted and logged. Invariants: no call blocks; memory is at most
// max_buffered_bytes plus one read per client. Thread: one at a time. The change callback runs
// inside progress() and may call everything but progress().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include <sys/types.h>

#include <towpath/net/frame_reader.h>
#include <towpath/net/listener.h>
#include <towpath/net/tls/tls_context.h>
#include <towpath/net/unproven.h>
#include <towpath/rendezvous/frame.h>
#include <towpath/rendezvous/rendezvous.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/telemetry/log.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::rendezvous {

struct PeerListenerOptions {
  net::Address address;  ///< TCP port 0: the kernel chooses; address() returns it
  std::shared_ptr<const net::TlsContext> tls;  ///< of a TCP address, which needs one
  bool loopback_only = false;                  ///< refuses an address that other machines can reach
  std::size_t max_clients = 64;                ///< at least 1
  std::size_t max_metadata_bytes = std::size_t{1} << 20U;   ///< of metadata that is brought
  std::size_t max_buffered_bytes = std::size_t{16} << 20U;  ///< of all half-read frames together
  std::uint64_t max_bytes_per_client = std::uint64_t{64} << 20U;  ///< in the life of one
  /// From connecting to the end of the hello; then from a request's first byte to its reply's last.
  Duration exchange_timeout = std::chrono::seconds(5);
  Duration idle_timeout = std::chrono::seconds(30);  ///< between two exchanges
  uid_t trusted_user = static_cast<uid_t>(-1);       ///< beside root; -1: the user of this process
  telemetry::Log log;
};

/// Since the listener was opened.
struct PeerListenerCounts {
  telemetry::Counter accepted;
  telemetry::Counter served;     ///< exchanges that ended well
  telemetry::Counter denied;     ///< other users, wrong tokens or certificates
  telemetry::Counter malformed;  ///< what they sent was no frame, or too large
  telemetry::Counter overdue;    ///< too slow, or silent
  /// Made room for a newcomer, or was one that no room was made for, or held too many bytes.
  telemetry::Counter crowded_out;
};

class PeerListener {
 public:
  /// How long a client that has proven nothing is silent before it goes for another: a handshake of
  /// TLS takes a while where many come at once. Behind a Unix socket all are of a trusted user.
  static constexpr Duration kSilenceInTls = std::chrono::seconds(2);

  /// Hears of metadata that is brought (with metadata) and withdrawn (without); a failure that it
  /// returns is reported to the client.
  using Accept = std::function<Status(const Change&)>;

  /// `clock` must outlive the listener. Errors: already_exists (someone listens at the address),
  /// denied (a TCP address without TLS; reachable from outside, and loopback_only),
  /// invalid_argument, exhausted (no descriptor is free), and net::Listener's.
  static Result<std::unique_ptr<PeerListener>> open(PeerListenerOptions options,
                                                    const Clock& clock);
  /// Closes all clients and removes the socket's file.
  ~PeerListener();
  PeerListener(const PeerListener&) = delete;
  PeerListener& operator=(const PeerListener&) = delete;

  /// From now on who asks for `name` gets `metadata`. Errors: as Rendezvous::publish.
  Status publish(const MetadataName& name, ConstByteSpan metadata);
  /// Without a label: all metadata of the agent. Errors: not_found.
  Status withdraw(const MetadataName& name);
  /// Frees the address and lets nobody in any more; those inside are served on.
  void stop_listening() noexcept;
  /// Makes the metadata that is asked for and was not published, when it is asked for. Errors:
  /// not_found, and whatever else the client shall hear.
  using Provide = std::function<Result<Bytes>(const MetadataName&)>;
  void on_ask(Provide provide) { provide_ = std::move(provide); }
  /// Without one, what others bring is refused with `unsupported`.
  void on_change(Accept accept) { accept_ = std::move(accept); }

  /// Serves who is ready, drops who is overdue. Returns how many exchanges ended.
  std::size_t progress();
  /// Readable when progress() has something to do, also when a client becomes overdue (on
  /// SystemClock; with another clock call progress() when it moves).
  int wait_fd() const noexcept { return poller_.fd(); }

  const net::Address& address() const noexcept { return options_.address; }
  std::size_t metadata_count() const noexcept { return replies_.size(); }
  std::size_t client_count() const noexcept { return clients_.size(); }
  std::size_t buffered_bytes() const noexcept { return buffered_bytes_; }
  const PeerListenerCounts& counts() const noexcept { return counts_; }

 private:
  struct Client;
  using Clients = std::map<std::uint64_t, Client>;

  PeerListener(PeerListenerOptions options, const Clock& clock, net::Listener listener,
               run::Poller poller, run::TimerFd timer);

  void accept_newcomers();
  void admit(sys::Fd socket);
  std::unique_ptr<sys::ByteStream> wrap(sys::Fd socket) const;
  void pause_accepting();
  void resume_accepting();
  void serve(std::uint64_t id);
  Status exchange(Client& client);
  Status hear(Client& client, const net::Frame& received);
  void extend_deadline(Client& client, bool exchange_began);
  Status answer(Client& client, const Frame& request);
  Frame provide(const MetadataName& name) const;
  Status answer_change(Client& client, Change change);
  void drop(Clients::iterator client, std::string_view why, telemetry::Counter& count);
  void refuse(const Status& why, telemetry::Counter& count);
  void forget(Clients::iterator client);
  Status make_room(const std::optional<net::Source>& newcomer);
  void drop_overdue();
  void arm_timer();

  PeerListenerOptions options_;
  const Clock* clock_;
  std::optional<net::Listener> listener_;
  run::Poller poller_;
  run::TimerFd timer_;
  PeerListenerCounts counts_;
  Accept accept_;
  Provide provide_;
  std::map<MetadataName, std::shared_ptr<const Bytes>> replies_;  // sealed frames
  Clients clients_;
  std::uint64_t next_client_;
  std::size_t buffered_bytes_ = 0;
  Instant accept_again_at_ = Instant::never();  // while accepting is paused
  std::size_t ended_ = 0;                       // exchanges, in this progress()
};

}  // namespace towpath::rendezvous
