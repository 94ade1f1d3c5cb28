// PieceDispatcher: brings the pieces of all operations through one engine: at most so many at a
// time, in turns, batched; settles every byte once; reports the outcome.
//
// A backend derives its own, which says what a piece is, hands it in, and knows what the engine's
// answers mean. It is not the backend: it knows no registrations and no peers.
//
//   post() -> check() -> take() --> hand_in() --> engine --> settle() -+-> moved(), go_on()
//                                      ^                               +-> retry(), isolate()
//                                      +-------------------------------+-> fail_part(), stop()
//
// What is posted starts at once. Only where each start wakes a thread of the kernel, which then
// takes the processor to do that one piece (can_linger), pieces are better started together: the
// first to be posted after a progress() starts at once, those that follow with the next one, which
// wait_fd() asks for.
//
// Invariants:
//   - Bytes count as in place only when the engine said so.
//   - An operation completes when nothing of it is in the engine any more, also where memory runs
//     out: what no memory is left for has failed.
//   - While pieces linger, wait_fd() is readable.
// Thread: loop. Cost: no allocation, lock or system call per piece; one flush per batch.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backend/operation_counters.h>
#include <towpath/backend/piece_operation.h>
#include <towpath/sys/io_engine.h>

namespace towpath::backend {

class PieceDispatcher {
 public:
  /// All outlive it.
  PieceDispatcher(sys::IoEngine& engine, Events& events, PieceCounters& counters) noexcept
      : engine_(engine), events_(events), counters_(counters) {}
  virtual ~PieceDispatcher() = default;
  PieceDispatcher(const PieceDispatcher&) = delete;
  PieceDispatcher& operator=(const PieceDispatcher&) = delete;

  /// As Backend::progress().
  bool progress();

  /// Whether a piece in the engine reads or writes this memory. For the checks of who destroys it.
  bool touches(const Memory& memory) const noexcept;
  std::uint32_t in_flight() const noexcept { return in_flight_; }

 protected:
  /// What became of an operation's next piece.
  enum class Take {
    ready,    ///< the flight carries it
    settled,  ///< it needs none: the request progress knows of it
    copied,   ///< settled, by a copy that was made at once
    waits,    ///< not now: it is still the next one
  };

  /// A place for a piece: as many as may be in the engine at a time. Before the first operation.
  void add(PieceFlight& flight);
  /// Those of add(), in their order.
  const std::vector<PieceFlight*>& flights() const noexcept { return flights_; }

  // ---- What a backend adds

  /// Looks at a segment before its first byte; both its memories are there. A failure completes the
  /// request.
  virtual Status check(const Segment& segment, bool write) const = 0;
  /// The next piece: its start, its length, and whether it copies.
  virtual Take take(PieceOperation& operation, PieceFlight& flight) = 0;
  /// Submits [done, limit) to the engine by flight.id. A failure fails that part.
  virtual Status hand_in(PieceFlight& flight) = 0;
  /// What came back. Must end in one of the answers below.
  virtual void settle(PieceFlight& flight, std::int32_t result) = 0;
  /// Bytes of a piece that stand or fall together: an extent is isolated in multiples of it.
  virtual std::uint64_t unit_of(const PieceFlight& flight) const = 0;
  /// The piece is settled: what take() took for it goes back.
  virtual void let_go(PieceFlight& flight) { (void)flight; }

  // ---- Answers of settle()

  /// The bytes from flight.done on are in place. Not an end: go_on() or submit() follows.
  static void moved(PieceFlight& flight, std::uint64_t bytes) noexcept;
  /// All of [done, limit) is settled.
  void go_on(PieceFlight& flight);
  /// Once more.
  void submit(PieceFlight& flight);
  /// Once more, unless that was done so often without a byte of progress. False: it was.
  bool retry(PieceFlight& flight, std::uint32_t at_most);
  /// Once more with the first extent alone. False: it was alone.
  bool isolate(PieceFlight& flight);
  void fail_part(PieceFlight& flight, const Status& why);
  /// The rest is not tried, because its operation is cancelled.
  void stop(PieceFlight& flight);

 private:
  friend class PieceOperation;
  void start(PieceOperation& operation, const Request& request);
  Status prepare(PieceOperation& operation);
  void cancel(PieceOperation& operation);

  bool look_once_more();
  bool clear_and_reap();
  bool submit_some();
  bool launch_some();
  void flush_or_linger();
  bool raise_wait_fd();
  Take launch(PieceOperation& operation, std::uint64_t& copy_budget);
  void flush();
  std::size_t reap_some();
  void settle_or_fail(PieceFlight& flight, std::int32_t result);
  std::uint64_t end_of_extent(const PieceFlight& flight) const;
  void release(PieceFlight& flight);
  void complete_if_quiesced(PieceOperation& operation);
  void complete(PieceOperation& operation, const Completion& completion);

  sys::IoEngine& engine_;
  Events& events_;
  PieceCounters& counters_;
  std::vector<PieceFlight*> flights_;
  std::vector<PieceFlight*> free_;
  TurnQueue<PieceOperation> queue_;
  std::uint32_t in_flight_ = 0;
  // The engine's wait_fd(), as far as it is known.
  enum class Signal {
    unknown,
    silent,  // cleared, and nothing was found after that: what ends from here on makes it readable
    readable,  // until it is cleared
  };
  Signal signal_ = Signal::unknown;
  std::uint32_t idle_calls_ = 0;
  bool unflushed_ = false;
  bool is_urgent_ = false;    // something unflushed cannot linger
  bool lingers_ = false;      // what is unflushed waits for progress()
  bool has_started_ = false;  // a post flushed since the last progress()
  std::uint64_t unflushed_bytes_ = 0;
  bool busy_ = false;  // events are being reported: what they start is picked up afterwards
};

}  // namespace towpath::backend
