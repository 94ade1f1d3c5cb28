// Network: the simulated wire between sim backends, ruled by one seed and one clock.
//
// Everything that takes time is an event: a piece of a transfer, a message on its way, a promise to
// be quiesced. Events are handled in the order of their time (then of their making), when somebody
// calls run_due(); each backend's progress() does, and a test may, so that bytes move although the
// agent that asked for them is gone.
//
//   agent -- post ----> launch() --> Flight -- step, step, step --> Endpoint.arrived
//   agent -- notify --> send() ----------------------------------> Endpoint.inbox
//   Endpoint.arrived, Endpoint.inbox -- progress() --> agent
//
// With one thread, a seed and a clock that a test moves, two runs are equal to the last byte.
// Invariants: bytes move only inside run_due() and launch(), never of a flight that has arrived,
// and never in memory whose record is closed. Thread: any; one mutex guards it all. It calls
// nobody.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backend/capabilities.h>
#include <towpath/backend/endpoint_table.h>
#include <towpath/backend/memory_table.h>
#include <towpath/backend/segment_cursor.h>
#include <towpath/core/clock.h>
#include <towpath/core/identity.h>
#include <towpath/run/mutex.h>
#include <towpath/run/waker.h>

namespace towpath::backends::sim {

// Random: the only source of chance of a simulated network. The same seed throws the same numbers
// on every machine and compiler. Thread: none of its own.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {  // splitmix64
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31U);
  }
  /// 0 .. `count` - 1; `count` at least 1.
  std::uint64_t below(std::uint64_t count) noexcept { return next() % count; }
  /// True this many times in a thousand.
  bool chance(unsigned permille) noexcept { return permille > 0 && below(1000) < permille; }
  /// Zero up to `longest`.
  Duration within(Duration longest) noexcept {
    return longest.count() <= 0 ? Duration(0)
                                : Duration(below(static_cast<std::uint64_t>(longest.count()) + 1));
  }

 private:
  std::uint64_t state_;
};

// Behaviour: what a simulated network does to those who use it. All chances are per thousand.
// Thread: immutable.
/// The default is calm: no delay, no loss, nothing fails.
struct Behaviour {
  // What the backend declares, and then does.
  backend::Quiescence quiesced = backend::Quiescence::immediate;
  Duration quiescence_bound{0};  ///< for `bounded`: a cancelled transfer takes up to this long
  backend::Notifications notifications = backend::Notifications::reliable;

  // Transfers.
  Duration longest_step{0};               ///< each piece of bytes takes up to this long
  std::uint64_t piece_bytes = 64 * 1024;  ///< of the largest piece
  bool tears = false;                     ///< pieces end anywhere
  unsigned eager = 0;                     ///< complete inside post()
  unsigned silent = 0;                    ///< stop somewhere and never answer by themselves
  unsigned failing = 0;                   ///< extents that fail somewhere in the middle

  // Messages. Over a reliable network they are only delayed.
  Duration longest_way{0};
  unsigned dropped = 0;
  unsigned repeated = 0;
  unsigned torn = 0;  ///< cut short or with bytes changed
};

// Flight: one transfer on its way through the simulated network.
//
// It has its own copy of the segments, so that it can go on when nobody looks any more, as a
// network card does. It moves bytes only in step(), a torn-off piece at a time, in order; which
// piece fails is decided by the network's random numbers.
// Invariant: an extent is counted as in place, or is in `failures`, or lies behind the cursor.
// Thread: guarded by the network's mutex.
/// A registration that both sides of the network know.
struct Record : backend::RegisteredRegion {
  using RegisteredRegion::RegisteredRegion;
  bool closed = false;  ///< peers do not reach it any more
  bool freed = false;   ///< its owner let go of it: nobody may touch it
};

/// What registering or importing gives.
class SimMemory : public backend::Memory {
 public:
  explicit SimMemory(std::shared_ptr<Record> of) : record(std::move(of)) {}
  const std::shared_ptr<Record> record;
};

class Flight {
 public:
  enum class State {
    flying,
    arrived,  ///< over; its owner was not reported yet
    reported,
  };

  Flight(backend::Operation& of, const backend::Request& request);

  /// Moves about a piece, or fails extents. Nothing when at_end().
  void step(const Behaviour& behaviour, Random& random);
  bool at_end() const noexcept { return cursor_.done(); }
  /// Ends it; a failure replaces what step() found.
  void finish(Status status);
  backend::Completion completion() const { return {status_, bytes_, failures_}; }

  backend::Operation& operation;
  const backend::Connection* const connection;
  State state = State::flying;
  bool silent = false;     ///< never answers by itself
  bool cancelled = false;  ///< asked to stop

 private:
  void move_piece(const Behaviour& behaviour, Random& random);
  void fail_extent(Status why);

  const TransferOp op_;
  std::vector<backend::Segment> segments_;
  std::vector<std::shared_ptr<Record>> local_, remote_;  // of each segment
  backend::SegmentCursor cursor_;
  std::uint64_t bytes_ = 0;
  std::uint64_t failed_ = 0;
  std::vector<backend::SegmentFailure> failures_;
  Status status_;
};

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
