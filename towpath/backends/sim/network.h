// Network: the simulated wire between sim backends, ruled by one seed and one clock.
//
// Everything that takes time is an event: a piece of a transfer, a message on its way, a promise to
// be quiet. Events are handled in the order of their time (then of their making), when somebody
// calls run_due(); each backend's progress() does, and a test may, so that bytes move although the
// agent that asked for them is gone.
//
//   agent -- post --> launch() --> Flight -- step, step, step --> Endpoint.arrived -- progress()
//   --> agent -- notify --> send() -----------------------------> Endpoint.inbox ----- progress()
//   -->
//
// With one thread, a seed and a clock that a test moves, two runs are equal to the last byte.
// Invariants: bytes move only inside run_due() and launch(), never of a flight that has arrived,
// and never in memory whose record is closed. Thread: any; one mutex guards it all. It calls
// nobody.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <towpath/backend/endpoint_table.h>
#include <towpath/backends/sim/flight.h>
#include <towpath/core/identity.h>
#include <towpath/run/mutex.h>
#include <towpath/run/waker.h>

namespace towpath::backends::sim {

struct Message {
  AgentIdentity from;
  Bytes message;
};

/// What the network holds for one backend. Guarded by the network's mutex.
struct Endpoint {
  Endpoint(const AgentIdentity& its_identity, std::uint64_t its_id,
           std::unique_ptr<run::Waker> its_waker)
      : identity(its_identity), id(its_id), waker(std::move(its_waker)), records(its_identity) {}

  const AgentIdentity identity;
  const std::uint64_t id;
  const std::unique_ptr<run::Waker> waker;
  bool closed = false;  ///< its backend is gone, or was cut off
  backend::MemoryTable<Record> records;
  std::deque<Message> inbox;                            ///< has arrived, in this order
  std::deque<std::shared_ptr<Flight>> arrived;          ///< its own transfers, to be reported
  std::map<AgentIdentity, std::size_t> on_the_way;      ///< messages per sender, not yet taken
  std::map<AgentIdentity, std::deque<Bytes>> in_order;  ///< reliable messages that are not due yet
};

class Network {
 public:
  struct Counters {
    std::uint64_t launched = 0, silent = 0, pieces = 0;
    std::uint64_t sent = 0, dropped = 0, repeated = 0, torn = 0;
  };

  /// `clock` must outlive it.
  Network(std::uint64_t seed, const Behaviour& behaviour, const Clock& clock);

  const Behaviour& behaviour() const noexcept { return behaviour_; }

  // ---- what a test does to it ----
  /// Handles what is due, a bounded number of events. True: more is due.
  bool run_due();
  /// When the next event is due.
  std::optional<Instant> next_event() const;
  /// Ends the agent's part in the network: all its connections are lost, on both sides.
  void cut_off(const AgentIdentity& who);
  /// From now on nothing passes between the two; or everything again. What was on its way waits, or
  /// is dropped where messages may be.
  void set_parted(const AgentIdentity& one, const AgentIdentity& other, bool parted);
  Counters counters() const;

  // ---- what backends do with it ----
  Result<std::shared_ptr<Endpoint>> open_endpoint(const AgentIdentity& identity);
  /// Also closes its records.
  void close(Endpoint& endpoint);
  /// What `endpoint` puts into its metadata.
  backend::EndpointAddress address_of(const Endpoint& endpoint) const;
  /// `info` comes from outside. Errors: those of EndpointTable::find(); peer_lost if it is closed.
  Result<std::shared_ptr<Endpoint>> find(const AgentIdentity& peer, ConstByteSpan info) const;
  bool is_closed(const Endpoint& endpoint) const;

  std::shared_ptr<Record> add_record(Endpoint& endpoint, const RegionDescriptor& region);
  void close_record(Endpoint& endpoint, Record& record);
  /// The last two come from outside. Errors: those of MemoryTable::find().
  Result<std::shared_ptr<Record>> find_record(const Endpoint& endpoint, std::uint64_t record_id,
                                              const RegionDescriptor& region) const;

  struct Path {
    std::shared_ptr<Endpoint> from;
    std::shared_ptr<Endpoint> to;
  };
  /// Sets it flying. May arrive at once.
  void launch(const Path& path, std::shared_ptr<Flight> flight);
  /// Asks it to stop, as `quiet` says. What becomes of it arrives.
  void cancel(const Path& path, const std::shared_ptr<Flight>& flight);
  /// It arrives now, whatever it was doing.
  void force_down(const Path& path, const std::shared_ptr<Flight>& flight, const Status& why);
  Status send(const Path& path, ConstByteSpan message);

  std::shared_ptr<Flight> take_arrived(Endpoint& endpoint);
  std::optional<Message> take_message(Endpoint& endpoint,
                                      const std::set<AgentIdentity>& but_not_from);
  void put_back(Endpoint& endpoint, Message next_message);
  void took(Endpoint& endpoint, const AgentIdentity& from);
  /// Whether anything is or will be there for the endpoint by itself.
  bool has_work() const;

 private:
  using Handler = std::function<void()>;

  void schedule(Instant at, Handler handler) TOWPATH_REQUIRES(mutex_);
  void fly(const Path& path, const std::shared_ptr<Flight>& flight) TOWPATH_REQUIRES(mutex_);
  void arrive(const Path& path, const std::shared_ptr<Flight>& flight, Status status)
      TOWPATH_REQUIRES(mutex_);
  void deliver_lossy(const Path& path, const Bytes& message) TOWPATH_REQUIRES(mutex_);
  void deliver_next(const Path& path) TOWPATH_REQUIRES(mutex_);
  void carry(const Path& path, Bytes message) TOWPATH_REQUIRES(mutex_);
  bool are_parted(const Path& path) const TOWPATH_REQUIRES(mutex_);
  bool is_lossy() const noexcept {
    return behaviour_.notifications == backend::Notifications::lossy;
  }

  const Behaviour behaviour_;
  const Clock& clock_;
  mutable run::Mutex mutex_;
  Random random_ TOWPATH_GUARDED_BY(mutex_);
  Counters counters_ TOWPATH_GUARDED_BY(mutex_);
  std::uint64_t made_ TOWPATH_GUARDED_BY(mutex_) = 0;  // events
  std::map<std::pair<Instant, std::uint64_t>, Handler> events_ TOWPATH_GUARDED_BY(mutex_);
  backend::EndpointTable<Endpoint> endpoints_ TOWPATH_GUARDED_BY(mutex_);
  std::set<std::pair<AgentIdentity, AgentIdentity>> parted_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::backends::sim
