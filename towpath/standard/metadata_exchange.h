// MetadataExchange: brings an agent's metadata to others and loads theirs, by address or through a
// store.
//
//   at an address   another agent's MetadataExchange that listens there (a Unix or TCP socket)
//   in the store    any Rendezvous (rendezvous_url.h): etcd, mostly
//
// Every call is accepted or refused at once; what came of it is reported by take_outcomes() and in
// the log. (NIXL's users know this as sendLocalMD, fetchRemoteMD and invalidateLocalMD.) Metadata
// that comes in is loaded; a withdrawn one makes the agent forget its sender. Who was fetched from
// the store is followed there: newer metadata is loaded, and when its metadata goes away it is
// forgotten. While the store cannot be reached nothing is forgotten, and standing() says so.
// Thread: any. Callers drive it with progress(), or give it a thread with start_thread().
//
// Counted, where it is given metrics, with the label agent:
//
//   towpath_metadata_total{what,status}    outcomes; the status is ok or an error's code
//   towpath_metadata_store_up               1, or 0 while the store is in trouble
//   towpath_metadata_store_pending          metadata and withdrawals that it does not have yet
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/core/format.h>
#include <towpath/net/address.h>
#include <towpath/rendezvous/peer_rendezvous.h>
#include <towpath/run/mutex.h>
#include <towpath/run/worker.h>
#include <towpath/standard/metadata_security.h>
#include <towpath/telemetry/log.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::standard {

struct MetadataExchangeOptions {
  agent::Agent* agent = nullptr;                  ///< must outlive the exchange
  const Clock* clock = nullptr;                   ///< must outlive the exchange
  std::unique_ptr<rendezvous::Rendezvous> store;  ///< null: only addresses
  std::optional<net::Address> listen;  ///< where others bring and ask; TCP port 0: chosen
  MetadataSecurity security;           ///< of our listener and for those of others, over TCP
  /// How long an exchange is tried: also how long a fetch waits for metadata to be published.
  Duration timeout = std::chrono::seconds(5);
  telemetry::Log log;
  telemetry::Metrics* metrics = nullptr;  ///< null: nothing is counted; must outlive the exchange
};

/// Which part of the agent's metadata.
struct MetadataPart {
  const DescriptorList* only = nullptr;  ///< the regions that cover these; null: the full metadata
  bool connection_info = true;
  std::string label;  ///< a partial metadata needs one to be found in the store
};

struct ExchangeOutcome {
  enum class What : std::uint8_t { sent, fetched, invalidated, brought, withdrawn };
  What what = What::sent;  ///< the last two: by others, to us
  rendezvous::MetadataName name;
  std::string place;  ///< an address, or "the store"
  Status status;
};

/// "sent", "fetched", ...
std::string_view name_of(ExchangeOutcome::What what);

class MetadataExchange {
 public:
  /// Errors: invalid_argument, PeerRendezvous::open's (the listener).
  static Result<std::unique_ptr<MetadataExchange>> open(MetadataExchangeOptions options);
  ~MetadataExchange();

  /// Where others can reach us; nothing: we do not listen.
  std::optional<net::Address> listening_at() const;
  /// How what we gave to the store stands there, and what keeps it from us; all is well without
  /// one.
  rendezvous::Standing standing() const;

  using Address = std::optional<net::Address>;  ///< nothing: the store
  /// Errors now: not_found (a region is not registered), invalid_argument (no store; a part without
  /// a label in the store), exhausted.
  Status send(const MetadataPart& part = {}, const Address& to = {});
  /// Without a label: the full metadata.
  Status fetch(const rendezvous::MetadataName& name, const Address& from = {});
  /// All that we gave there is no more.
  Status invalidate(const Address& at = {});

  /// What came of calls, oldest first; each is reported once, and the oldest of many are dropped.
  std::vector<ExchangeOutcome> take_outcomes();

  std::size_t progress();
  /// Readable when progress() has something to do.
  int wait_fd() const noexcept { return poller_.fd(); }
  /// Makes progress until the exchange dies. Errors: exhausted.
  Status start_thread();

 private:
  using What = ExchangeOutcome::What;
  struct Fetch {  // tried again until its deadline
    rendezvous::MetadataName name;
    Address from;
    run::Deadline deadline;
    Instant again_at{0};
    bool in_flight = false;
  };

  MetadataExchange(MetadataExchangeOptions options, run::Poller poller, run::TimerFd timer);
  Status open_doors() TOWPATH_REQUIRES(mutex_);
  Status publish_here(const MetadataPart& part, ConstByteSpan metadata) TOWPATH_REQUIRES(mutex_);
  void drive_fetches() TOWPATH_REQUIRES(mutex_);
  void ask(std::uint64_t id, Fetch& fetch) TOWPATH_REQUIRES(mutex_);
  void answered(std::uint64_t id, const Result<Bytes>& metadata) TOWPATH_REQUIRES(mutex_);
  void heard(const rendezvous::Change& change, bool from_store) TOWPATH_REQUIRES(mutex_);
  void watch_store() TOWPATH_REQUIRES(mutex_);
  void note(ExchangeOutcome outcome) TOWPATH_REQUIRES(mutex_);
  void gauge_store() TOWPATH_REQUIRES(mutex_);
  telemetry::Labels labels() const {
    return {{"agent", telemetry::name_label(options_.agent->name())}};
  }
  Result<rendezvous::FetchId> bring(const Address& to, const rendezvous::Change& change, What what)
      TOWPATH_REQUIRES(mutex_);

  MetadataExchangeOptions options_;
  run::Poller poller_;
  run::TimerFd timer_;
  mutable run::Mutex mutex_;
  std::unique_ptr<rendezvous::PeerRendezvous> doors_ TOWPATH_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Fetch> fetches_ TOWPATH_GUARDED_BY(mutex_);
  std::uint64_t next_fetch_ TOWPATH_GUARDED_BY(mutex_) = 1;
  std::set<std::string> followed_ TOWPATH_GUARDED_BY(mutex_);  // in the store
  bool watching_ TOWPATH_GUARDED_BY(mutex_) = false;
  std::deque<ExchangeOutcome> outcomes_ TOWPATH_GUARDED_BY(mutex_);
  std::optional<run::Worker> worker_;  // dies first
};

}  // namespace towpath::standard
