// SliceRunner: operations of a backend whose bytes move only inside its own calls.
//
// Such a backend says how one slice moves (SliceMover); the runner makes its operations, takes
// turns between the active ones, counts, names what failed, and completes each post exactly once.
// As bytes move only inside post() and progress(), an operation is quiesced as soon as it is asked
// to stop (Quiescence::immediate). The first slice runs inside post(), so small transfers complete
// there.
//
//   post() -> admit() -> move() --done--> on_complete()
//                          |  not done: waits in line for its next turn
//   progress() ----------> move() ...
//
// Invariant: an operation is in the line of active ones exactly while it owes a completion.
// Thread: loop. Events may post, cancel or destroy the operation that they are notified of.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backend/segment_cursor.h>

namespace towpath::backend {

class SlicedOperation;

/// About what one call of progress() moves.
inline constexpr std::uint64_t kSliceBytes = 512 * 1024;
/// What a piece costs at least in the budget of a slice, so that tiny ones end it too.
inline constexpr std::uint64_t kPieceCost = 64;

/// A request on its way.
class SliceTask {
 public:
  const Request& request() const noexcept { return request_; }
  SegmentCursor& at() noexcept { return cursor_; }
  const SegmentCursor& at() const noexcept { return cursor_; }

  /// `bytes` from the cursor on are in place.
  void moved(std::uint64_t bytes) noexcept {
    bytes_ += bytes;
    cursor_.advance(bytes);
  }
  /// The extent at the cursor cannot be moved (further); goes past it.
  void fail_extent(const Status& why);
  /// The same for what is left of its segment.
  void fail_segment(const Status& why);

  /// Copies by loads and stores until `budget` (bytes) is used up or another remote memory begins.
  /// `remote_shift` makes remote addresses ones of this process; it is added and may wrap.
  void copy(std::uint64_t remote_shift, std::uint64_t& budget);

 private:
  friend class SliceRunner;
  friend class SlicedOperation;
  void start(const Request& request) noexcept;
  Completion completion();

  Request request_;
  SegmentCursor cursor_;
  bool is_far_ = false;  ///< more bytes than caches hold: see far_copy.h
  std::uint64_t bytes_ = 0;
  std::uint64_t failed_ = 0;
  std::vector<SegmentFailure> failures_;
  Status status_;
};

/// What a backend adds.
class SliceMover {
 public:
  virtual ~SliceMover() = default;
  /// Looks at a request before its first byte. A failure completes it.
  virtual Status admit(const Request& request) = 0;
  /// Moves about kSliceBytes, or one batch, and makes some way: bytes or failures. A failure
  /// completes the operation as a whole.
  virtual Status move(SliceTask& task) = 0;
};

/// A place in a circular list; a lonely one is linked to itself.
struct SliceLink {
  SliceLink() noexcept = default;
  SliceLink(const SliceLink&) = delete;
  SliceLink& operator=(const SliceLink&) = delete;

  bool is_linked() const noexcept { return next != this; }
  void unlink() noexcept;
  void insert_before(SliceLink& place) noexcept;

  SliceLink* next = this;
  SliceLink* previous = this;
};

class SliceRunner {
 public:
  /// Both outlive the runner; the runner outlives its operations.
  SliceRunner(Events& events, SliceMover& mover) : events_(events), mover_(mover) {}
  SliceRunner(const SliceRunner&) = delete;
  SliceRunner& operator=(const SliceRunner&) = delete;

  std::unique_ptr<Operation> make_operation();
  bool is_active() const noexcept { return active_.is_linked(); }
  /// One slice of the operation whose turn it is. True: there is more to move.
  bool progress();
  /// Completes all active operations of a connection.
  void fail_all(const Connection& connection, const Status& why);

 private:
  friend class SlicedOperation;
  /// What `work` returns, or that no memory was left for it: an operation ends, and moves no byte
  /// that was not admitted.
  template <typename Work>
  Status or_no_memory(const Work& work) const noexcept {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return no_memory_;
    }
  }
  void run_slice(SlicedOperation& operation);
  void complete(SlicedOperation& operation, Status status);

  Events& events_;
  SliceMover& mover_;
  SliceLink active_;
  /// Made before it is needed.
  const Status no_memory_ = error(Code::exhausted, "no memory was left to move more bytes");
};

}  // namespace towpath::backend
