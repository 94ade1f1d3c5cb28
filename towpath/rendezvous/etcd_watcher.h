// Watcher: what has changed under a prefix of etcd, without a gap.
//
//   off -> listing -> streaming -> off (the stream ended; after a pause it lists again)
//
// A listing says which keys there are and their revisions; the stream goes on from there. After a
// break the next listing is held against what was known, so that what changed, and what vanished,
// meanwhile is reported too. What agents of this process did is not reported.
// Thread: one at a time. Its callbacks run inside the client's progress().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <towpath/rendezvous/etcd_client.h>
#include <towpath/rendezvous/etcd_keys.h>
#include <towpath/rendezvous/rendezvous.h>

namespace towpath::rendezvous::etcd {

struct WatcherEnds {
  std::function<bool(LeaseId)> is_mine;
  std::function<void(Change)> report;
  std::function<void()> answered;             ///< etcd has, with a line of the stream
  std::function<void(const Status&)> failed;  ///< it is off now
  /// How long what a break has swallowed may be missing before it counts as withdrawn: an etcd that
  /// has forgotten all is notified again by those who live.
  Duration grace;
  std::size_t most_keys = 100'000;  ///< that it knows at a time; with more it fails
};

class Watcher {
 public:
  /// All must outlive it.
  Watcher(Client& client, const Keys& keys, const Clock& clock, WatcherEnds ends)
      : client_(client), keys_(keys), clock_(clock), ends_(std::move(ends)) {}

  /// Begins, if it is off.
  void start();
  /// Reports what has been missing for too long. To be called when next_loss() has come.
  void report_losses(Instant now);
  Instant next_loss() const;
  /// Off; what was known is kept for the next start.
  void stop();
  bool is_off() const noexcept { return stage_ == Stage::off; }
  /// Whether changes from now on will be reported.
  bool is_streaming() const noexcept { return stage_ == Stage::streaming; }

 private:
  enum class Stage : std::uint8_t { off, listing, streaming };
  struct Known {
    std::int64_t revision = 0;
    LeaseId lease = 0;
    bool mine = false;

    /// An etcd that has forgotten all counts from 1 again, but gives no lease twice.
    bool is_same_as(const Known& other) const {
      return revision == other.revision && lease == other.lease;
    }
  };

  void list_from(const std::string& key);
  void listed(const Result<std::string>& body);
  void reconcile();
  void open_stream(std::int64_t revision);
  Status hear(std::string_view line);
  void apply(const Event& event);
  void take(const KeyValue& pair);
  void read_next();
  void read(const std::string& key, const Result<std::string>& body);
  void report(const std::string& key, std::optional<Bytes> metadata);
  Known known_of(const KeyValue& pair) const {
    return {pair.mod_revision, pair.lease, ends_.is_mine(pair.lease)};
  }
  Status too_many() const;
  void fail(const Status& why);

  Client& client_;
  const Keys& keys_;
  const Clock& clock_;
  WatcherEnds ends_;
  Stage stage_ = Stage::off;
  bool has_listed_ = false;  // ever: then what is new is reported
  CallId call_ = 0;          // of the listing or the stream
  CallId reading_ = 0;
  std::int64_t revision_ = 0;  // of the listing under way
  std::map<std::string, Known> listing_;
  std::map<std::string, Known> known_;
  std::map<std::string, Instant> missing_;  // since a break; when each counts as withdrawn
  std::set<std::string> changed_;           // during a break; their values are to be read
};

}  // namespace towpath::rendezvous::etcd
