// HostedRendezvous: an address at which a few agents leave their metadata and find those of the
// others.
//
// The process that opens it first, on the machine that the address belongs to, hosts it; all others
// are guests, and need no address of their own. It has no server and no memory: the metadata goes
// with the host, a killed guest's metadata stays until then, and only the host hears changes. For
// more than a job that starts and ends together, use an etcd. Invariants: nothing blocks but the
// destructor, for at most farewell_timeout; what guests leave is bounded in number and bytes.
// Thread: one at a time; see Rendezvous.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include <towpath/rendezvous/peer_client.h>
#include <towpath/rendezvous/peer_listener.h>
#include <towpath/rendezvous/rendezvous.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>

namespace towpath::rendezvous {

struct HostedRendezvousOptions {
  net::Address address;
  net::TlsProvider tls;  ///< of a TCP address
  bool hosts = true;     ///< false: it is a guest, also of a host that is not there yet
  std::size_t max_metadata = 4096;
  std::size_t max_bytes = std::size_t{256} << 20U;  ///< of all metadata together
  Duration farewell_timeout = std::chrono::milliseconds(500);
  /// Its address and TLS are not used. What guests bring is as long as what may be published, again
  /// and again from each.
  PeerListenerOptions listener{.max_metadata_bytes = kMaxMetadataBytes,
                               .max_buffered_bytes = 16 * kMaxMetadataBytes,
                               .max_bytes_per_client = 64 * kMaxMetadataBytes};
  PeerClientOptions client;  ///< its TLS is not used
};

class HostedRendezvous final : public Rendezvous {
 public:
  /// `clock` must outlive it. Errors: PeerListener::open's, but for an address that is taken or of
  /// another machine, which makes it a guest.
  static Result<std::unique_ptr<HostedRendezvous>> open(HostedRendezvousOptions options,
                                                        const Clock& clock);
  /// A guest takes its metadata along.
  ~HostedRendezvous() override;

  Status publish(const MetadataName& name, ConstByteSpan metadata) override;
  Status withdraw(const MetadataName& name) override;
  Standing standing() const override;
  Result<FetchId> fetch(const MetadataName& name, run::Deadline deadline, FetchDone done) override {
    return client_->fetch(options_.address, name, deadline, std::move(done));
  }
  void cancel(FetchId fetch) override { client_->cancel(fetch); }
  void watch(ChangeSeen seen) override { seen_ = std::move(seen); }
  std::size_t progress() override;
  int wait_fd() const noexcept override { return poller_.fd(); }

  bool is_host() const noexcept { return listener_ != nullptr; }
  /// Why it is a guest, unless it was to be one.
  const Status& hosting() const noexcept { return hosting_; }
  /// Of a host: metadata that a guest left there is no more. Errors: not_found; unsupported (it is
  /// a guest).
  Status drop(const MetadataName& name);
  /// With the port that the kernel chose, for a host.
  const net::Address& address() const noexcept { return options_.address; }

 private:
  struct Entry {                    // of metadata that is, or was, published from here
    std::optional<Bytes> metadata;  // nothing: it is to be withdrawn
    bool settled = false;
    bool in_flight = false;
    std::uint64_t version = 0;
  };
  HostedRendezvous(HostedRendezvousOptions options, const Clock& clock, run::Poller poller,
                   run::TimerFd timer, std::unique_ptr<PeerClient> client);
  Status host();
  Status take(const Change& change);
  void bring(const MetadataName& name, Entry& entry);
  void renew(const MetadataName& withdrawn);
  void brought(const MetadataName& name, std::uint64_t version, const Status& status);
  void drive();
  void say_farewell();

  HostedRendezvousOptions options_;
  const Clock* clock_;
  run::Poller poller_;
  run::TimerFd timer_;
  std::unique_ptr<PeerClient> client_;
  std::unique_ptr<PeerListener> listener_;  // of the host
  Status hosting_;
  std::map<MetadataName, std::size_t> sizes_;  // of what lies at the host
  std::size_t total_bytes_ = 0;
  std::map<MetadataName, Entry> entries_;
  Instant retry_at_{0};
  Status trouble_;
  ChangeSeen seen_;
  std::size_t reported_ = 0;  // in this progress()
};

}  // namespace towpath::rendezvous
