// PieceOperation: one transfer that goes in pieces, as state; and PieceFlight, a piece of it on its
// way. All that happens to them is in piece_dispatcher.h; here is what they consist of.
//
//   idle --post()--> queued (has pieces to hand in) --> waiting (all handed in) --> idle
//                       |  cancel()                        ^
//                       +----------------------------------+   what is in flight comes back first
//
// A backend derives its own from each: the operation knows how it is cut, the flight what the piece
// is. Thread: loop.
#pragma once

#include <cstdint>

#include <towpath/backend/request_progress.h>
#include <towpath/backend/turn_queue.h>

namespace towpath::backend {

class PieceDispatcher;

class PieceOperation : public Operation {
 public:
  /// `dispatcher` outlives it.
  explicit PieceOperation(PieceDispatcher& dispatcher) noexcept : dispatcher_(dispatcher) {}
  PieceOperation(const PieceOperation&) = delete;
  PieceOperation& operator=(const PieceOperation&) = delete;
  ~PieceOperation() override;

  void post(const Request& request) final;
  void cancel() final;

  // Of the newest post.
  Segments segments() const noexcept { return segments_; }
  bool writes() const noexcept { return write_; }
  bool cancelled() const noexcept { return cancelled_; }
  RequestProgress& progress() noexcept { return progress_; }

 protected:
  // What a backend adds. Begins to cut segments() into pieces; whether there are more.
  virtual void begin() = 0;
  virtual bool has_more() const = 0;

 private:
  friend class PieceDispatcher;
  friend class TurnQueue<PieceOperation>;

  PieceDispatcher& dispatcher_;
  Segments segments_;
  RequestProgress progress_;
  std::uint32_t in_flight_ = 0;  // pieces of it in the engine
  bool write_ = false;
  bool active_ = false;
  bool cancelled_ = false;
  bool stopped_ = false;  // something was not tried because of cancelled_
  Turn<PieceOperation> turn_;
};

/// Consecutive bytes of a request that go together, from the first submission until the last byte
/// is settled (in place, failed, or not tried because of a cancel). They may go to the engine
/// several times: to continue after a short one, to try again, and extent by extent to find the
/// one that fails.
///
///   piece    |-----------------------------------------------|   in bytes of the request
///            0        done                limit              length
///            | settled | in the engine now | later (isolating) |
struct PieceFlight {
  PieceOperation* operation = nullptr;  ///< null: free
  Position start;
  std::uint64_t length = 0;
  bool copies = false;        ///< handing it in may copy its bytes there and then
  bool can_linger = false;    ///< handed in it may wait for the next progress(), to share a flush
  std::uint64_t id = 0;       ///< of the submission in the engine; another one each time
  std::uint64_t done = 0;     ///< bytes settled
  std::uint64_t limit = 0;    ///< end of what is in the engine
  bool isolating = false;     ///< one extent at a time
  std::uint32_t retries = 0;  ///< since bytes were last settled

  std::uint64_t remaining() const noexcept { return limit - done; }
  /// Where `done` is in the request.
  Position at() const noexcept { return advance(operation->segments(), start, done); }
};

}  // namespace towpath::backend
