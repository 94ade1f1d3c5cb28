// EtcdRendezvous: agents find each other's metadata in an etcd.
//
// What is published from here lives under one lease, which progress() keeps alive: when the process
// dies, etcd removes its metadata when the lease has run out, and who watches hears of it. While
// etcd cannot be reached, everything is kept and brought when it is back, also to one that has
// forgotten all; standing() says why it waits, and so does the log, once. Metadata that were
// fetched before keep working: an etcd is asked for metadata and for nothing else.
//
// Three times a lease it asks whether what it has published is there; one that only watches asks
// whether etcd answers, since a stream is as quiet where nothing changes as where it is cut off.
// Metadata that somebody removed is brought again; of two that publish one name the later has it,
// the first hears so in standing(), and brings its own again once the name is free. A withdrawal
// removes only ours.
//
// Secrets: with a token, metadata lie in etcd encrypted (etcd_cipher.h), and what others leave
// there is refused and not reported; without one they lie there as they are. The password goes to
// the endpoint as it is, unless that is https://. Invariants: nothing blocks but the destructor,
// for at most farewell_timeout. Thread: one at a time; see Rendezvous. It must be driven a few
// times within lease_ttl.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <towpath/net/token.h>
#include <towpath/rendezvous/etcd_cipher.h>
#include <towpath/rendezvous/etcd_client.h>
#include <towpath/rendezvous/etcd_keys.h>
#include <towpath/rendezvous/etcd_watcher.h>
#include <towpath/rendezvous/rendezvous.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/sys/fork_mark.h>
#include <towpath/telemetry/log.h>

namespace towpath::rendezvous {

struct EtcdOptions {
  etcd::ClientOptions client;                  ///< its max_requests is ours to say
  std::string name_space = "/towpath/agents";  ///< before every key
  /// That all agents of the namespace share. Nothing: metadata are readable for all that can read
  /// there.
  std::optional<net::Token> token;
  /// How long the metadata of a dead process stay. etcd grants no less than 2 s as it is set up.
  std::chrono::seconds lease_ttl{10};
  std::size_t max_metadata_bytes = std::size_t{1} << 20U;  ///< etcd takes 1.5 MiB as it is set up
  std::size_t max_fetches = 256;
  Duration longest_pause = std::chrono::seconds(2);  ///< between attempts while it is away
  Duration farewell_timeout = std::chrono::milliseconds(500);
  telemetry::Log log;
};

class EtcdRendezvous final : public Rendezvous {
 public:
  /// `clock` must outlive it. Asks nobody yet. Errors: invalid_argument (endpoints, namespace,
  /// ttl), exhausted.
  static Result<std::unique_ptr<EtcdRendezvous>> open(EtcdOptions options, const Clock& clock);
  /// Gives the lease back, and with it all metadata that were published from here; not in a forked
  /// child, where all of it is the parent's.
  ~EtcdRendezvous() override;

  /// Errors: as Rendezvous; out_of_range over max_metadata_bytes.
  Status publish(const MetadataName& name, ConstByteSpan metadata) override;
  Status withdraw(const MetadataName& name) override;
  Standing standing() const override;
  /// Heard errors also: unavailable at once when no endpoint answers; denied (etcd's, or the
  /// metadata are not of an agent with our token).
  Result<FetchId> fetch(const MetadataName& name, run::Deadline deadline, FetchDone done) override;
  void cancel(FetchId fetch) override;
  /// Hears all changes of the namespace, also those that happen while etcd cannot be reached; but
  /// what vanishes meanwhile counts as withdrawn only when nobody has brought it again within
  /// lease_ttl of etcd's return.
  void watch(ChangeSeen seen) override;
  /// Whether watch() has begun to hear: changes from then on are reported.
  bool is_watching() const noexcept { return watcher_.is_streaming(); }
  std::size_t progress() override;
  int wait_fd() const noexcept override { return poller_.fd(); }

 private:
  struct Entry {                    // of metadata that is, or was, published from here
    std::optional<Bytes> metadata;  // nothing: it is to be removed
    bool settled = false;           // etcd has it so
    bool taken = false;             // but another has published the name since
    bool check_due = false;         // whether it still has
    bool in_flight = false;
    std::uint64_t version = 0;

    bool is_due() const { return !in_flight && (!settled || check_due); }
  };
  struct Fetch {
    MetadataName name;
    run::Deadline deadline;
    FetchDone done;
    etcd::CallId call = 0;
  };

  EtcdRendezvous(EtcdOptions options, etcd::Keys keys, const Clock& clock, run::Poller poller,
                 run::TimerFd timer, std::unique_ptr<etcd::Client> client);
  void drive();
  void ask_for_lease();
  void keep_lease();
  void kept(std::chrono::seconds ttl);
  void lose_lease();
  void probe();
  bool has_due() const;
  void bring(const MetadataName& name, Entry& entry);
  void brought(const MetadataName& name, std::uint64_t version, std::int64_t lease,
               const Status& status);
  void check(const MetadataName& name, Entry& entry);
  void checked(const MetadataName& name, std::uint64_t version, const Result<std::string>& body);
  void answered(FetchId id, const Result<std::string>& body);
  Result<Bytes> found(const MetadataName& name, const Result<std::string>& body) const;
  Result<Bytes> readable(const MetadataName& name, Bytes value) const;
  void heard(Change change);
  std::size_t end_late_fetches();
  std::size_t report_changes();
  void failed(const Status& why);
  void worked();
  void reached();
  void watched();
  void recover();
  void say_farewell();
  void arm_timer();

  EtcdOptions options_;
  const sys::ForkMark fork_mark_;
  const std::optional<etcd::Cipher> cipher_;
  etcd::Keys keys_;
  const Clock* clock_;
  run::Poller poller_;
  run::TimerFd timer_;
  std::unique_ptr<etcd::Client> client_;
  etcd::Watcher watcher_;

  std::map<MetadataName, Entry> entries_;
  std::size_t in_flight_ = 0;
  etcd::LeaseId lease_ = 0;
  std::set<etcd::LeaseId> past_leases_;  // and the present one: what lies under them is ours
  bool lease_call_ = false;              // under way
  Duration keep_every_{0};               // three times a lease
  Instant keep_at_{0};                   // the lease, again
  bool probe_call_ = false;              // under way
  Instant probe_at_{0};                  // whether etcd answers, while it is only watched
  Duration pause_ = Duration::zero();
  Instant retry_at_{0};
  Status trouble_;

  std::map<FetchId, Fetch> fetches_;
  FetchId next_fetch_ = 1;
  ChangeSeen seen_;
  std::vector<Change> changes_;
  std::size_t answered_ = 0;  // in this progress()
};

}  // namespace towpath::rendezvous
