#include <algorithm>
#include <array>
#include <new>

#include <towpath/backend/piece_dispatcher.h>
#include <towpath/backend/raised.h>
#include <towpath/backend/segment_check.h>
#include <towpath/core/check.h>

namespace towpath::backend {
namespace {

constexpr std::size_t kReapBatch = 32;
// Some pieces are copied inside the call that hands them in: a batch of them is cut here to keep
// progress() short.
constexpr std::uint64_t kCopiedBatchBytes = 1U << 20U;
// A late wake-up may find nothing; then wait_fd() is cleared at every so many calls.
constexpr std::uint32_t kClearEvery = 16;

// As long is worth a flush of its own.
constexpr std::uint64_t kLingeringBytes = 256U << 10U;

constexpr unsigned kIndexBits = 16;  // of an id: the flight; above: how often it was used
constexpr std::uint64_t kIndexMask = (1ULL << kIndexBits) - 1;

}  // namespace

void PieceDispatcher::add(PieceFlight& flight) {
  TOWPATH_CHECK(flights_.size() < kIndexMask, "more flights than an id can distinguish");
  flight.id = flights_.size();
  flights_.push_back(&flight);
  free_.push_back(&flight);
}

// ---- Operations

void PieceDispatcher::start(PieceOperation& operation, const Request& request) {
  operation.segments_ = request.segments;
  operation.write_ = request.op == TransferOp::write;
  operation.active_ = true;
  operation.cancelled_ = operation.stopped_ = false;
  operation.progress_.start(request.segments);
  if (Status bad = prepare(operation); !bad.ok())
    return complete(operation, {.status = std::move(bad)});
  if (!operation.has_more()) return complete(operation, operation.progress_.close(false));
  queue_.push_back(operation);
  if (busy_) return;
  const Raised busy(busy_);
  launch_some();
  flush_or_linger();
  if (in_flight_ != 0 && reap_some() != 0 && !lingers_) flush();  // what goes on
}

Status PieceDispatcher::prepare(PieceOperation& operation) {
  try {
    TOWPATH_TRY(check_segments(operation.segments_, [&](const Segment& segment) {
      return check(segment, operation.write_);
    }));
    operation.begin();
    return {};
  } catch (const std::bad_alloc&) {
    return operation.progress_.no_memory();
  }
}

void PieceDispatcher::cancel(PieceOperation& operation) {
  if (!operation.active_ || operation.cancelled_) return;
  operation.cancelled_ = true;
  operation.stopped_ = operation.turn_.queued;
  queue_.remove(operation);
  if (operation.in_flight_ != 0) {
    for (const PieceFlight* flight : flights_) {
      if (flight->operation == &operation) engine_.cancel(flight->id);
    }
  }
  complete_if_quiesced(operation);
}

void PieceDispatcher::complete_if_quiesced(PieceOperation& operation) {
  if (!operation.active_ || operation.turn_.queued || operation.in_flight_ != 0) return;
  complete(operation, operation.progress_.close(operation.stopped_));
}

// The operation may be posted again, or be gone, when this returns.
void PieceDispatcher::complete(PieceOperation& operation, const Completion& completion) {
  operation.active_ = false;
  counters_.ended(operation.write_, completion.status);
  events_.on_complete(operation, completion);
}

bool PieceDispatcher::touches(const Memory& memory) const noexcept {
  for (const PieceFlight* flight : flights_) {
    if (flight->operation == nullptr) continue;
    const Segments segments = flight->operation->segments_;
    const std::uint64_t last = advance(segments, flight->start, flight->length - 1).segment;
    for (std::uint64_t i = flight->start.segment; i <= last; ++i) {
      if (segments[i].local == &memory || segments[i].remote == &memory) return true;
    }
  }
  return false;
}

// ---- To the engine and back

bool PieceDispatcher::progress() {
  if (busy_) return true;  // from inside an event
  const Raised busy(busy_);
  has_started_ = false;
  if (lingers_) idle_calls_ = 0;  // wait_fd() was readable for this call, which answers it
  bool worked = reap_some() != 0;
  worked = submit_some() || worked;
  if (!worked && idle_calls_++ % kClearEvery == 0) worked = look_once_more();
  if (worked) idle_calls_ = 0;
  return worked || unflushed_;
}

// What was started just now may have ended already: then nobody sleeps, and nothing need be
// cleared.
bool PieceDispatcher::look_once_more() {
  const bool found = reap_some() != 0 || clear_and_reap();
  return submit_some() || found;
}

// Cleared first, then examined: what ends in between is seen here or wakes again. What is seen
// here may have made wait_fd() readable before the clear or after it.
bool PieceDispatcher::clear_and_reap() {
  engine_.clear_wait_fd();
  signal_ = Signal::unknown;
  if (reap_some() != 0) return true;
  signal_ = Signal::silent;
  return false;
}

// True: it started something, or more could be started at once.
bool PieceDispatcher::submit_some() {
  const bool started = launch_some();
  flush();
  return started;
}

void PieceDispatcher::flush_or_linger() {
  const bool may_linger = has_started_ && !is_urgent_ && unflushed_bytes_ < kLingeringBytes;
  if (unflushed_ && may_linger && raise_wait_fd()) {
    lingers_ = true;
    return;
  }
  has_started_ = has_started_ || unflushed_;
  flush();
}

// It is readable already in a row of transfers, where those that are posted follow what has ended.
bool PieceDispatcher::raise_wait_fd() {
  if (signal_ == Signal::readable) return true;
  if (!engine_.raise_wait_fd()) return false;
  signal_ = Signal::readable;
  return true;
}

// As submit_some(), but for the flush.
bool PieceDispatcher::launch_some() {
  std::uint64_t copy_budget = kCopiedBatchBytes;
  std::size_t waiting = 0;
  bool started = false;
  while (!queue_.empty() && !free_.empty() && waiting < queue_.size() && copy_budget != 0) {
    PieceOperation& operation = *queue_.front();
    if (launch(operation, copy_budget) == Take::waits) {
      ++waiting;
      queue_.rotate();
      continue;
    }
    started = true;
    waiting = 0;
    if (operation.has_more() && !operation.progress_.has_no_memory()) {
      queue_.rotate();
      continue;
    }
    queue_.remove(operation);
    complete_if_quiesced(operation);
  }
  return started;
}

PieceDispatcher::Take PieceDispatcher::launch(PieceOperation& operation,
                                              std::uint64_t& copy_budget) {
  PieceFlight& flight = *free_.back();
  Take taken = Take::settled;
  try {
    taken = take(operation, flight);
  } catch (const std::bad_alloc&) {  // whether it is behind that piece is not known: none follows
    operation.progress_.note_no_memory();
  }
  if (taken == Take::copied || (taken == Take::ready && flight.copies))
    copy_budget -= std::min(copy_budget, flight.length);
  if (taken != Take::ready) return taken;
  free_.pop_back();
  flight.operation = &operation;
  flight.done = 0;
  flight.limit = flight.length;
  flight.isolating = false;
  flight.retries = 0;
  ++operation.in_flight_;
  ++in_flight_;
  submit(flight);
  return taken;
}

void PieceDispatcher::submit(PieceFlight& flight) {
  flight.id += 1ULL << kIndexBits;
  Status bad;
  try {
    bad = hand_in(flight);
  } catch (const std::bad_alloc&) {
    bad = flight.operation->progress_.no_memory();
  }
  if (!bad.ok()) return fail_part(flight, bad);
  unflushed_ = true;
  is_urgent_ = is_urgent_ || !flight.can_linger;
  unflushed_bytes_ += flight.remaining();
}

void PieceDispatcher::flush() {
  if (!unflushed_) return;
  counters_.batches.add();
  try {
    unflushed_ = !engine_.flush();
  } catch (const std::bad_alloc&) {  // as one that is refused
  }
  lingers_ = false;
  if (unflushed_) return;
  is_urgent_ = false;
  unflushed_bytes_ = 0;
}

std::size_t PieceDispatcher::reap_some() {
  std::array<sys::IoDone, kReapBatch> batch;
  const std::size_t count = engine_.reap(batch);
  if (count != 0 && signal_ == Signal::silent) signal_ = Signal::readable;
  for (const sys::IoDone& done : std::span(batch).first(count)) {
    const std::uint64_t index = done.id & kIndexMask;
    const bool known = index < flights_.size() && flights_[index]->operation != nullptr &&
                       flights_[index]->id == done.id;
    if (known)
      settle_or_fail(*flights_[index], done.result);
    else
      counters_.strays.add();
  }
  return count;
}

// What runs out of memory in settle() has not answered yet, or has reported an end: nothing of it
// keeps the others of a batch from theirs.
void PieceDispatcher::settle_or_fail(PieceFlight& flight, std::int32_t result) {
  const std::uint64_t id = flight.id;
  try {
    return settle(flight, result);
  } catch (const std::bad_alloc&) {
  }
  if (flight.operation != nullptr && flight.id == id)
    fail_part(flight, flight.operation->progress_.no_memory());
}

// ---- What an answer means for a piece

void PieceDispatcher::moved(PieceFlight& flight, std::uint64_t bytes) noexcept {
  flight.operation->progress_.moved(bytes);
  flight.done += bytes;
  flight.retries = 0;
}

void PieceDispatcher::go_on(PieceFlight& flight) {
  if (flight.done == flight.length) return release(flight);
  if (flight.operation->cancelled_) return stop(flight);
  flight.limit = end_of_extent(flight);
  submit(flight);
}

bool PieceDispatcher::retry(PieceFlight& flight, std::uint32_t at_most) {
  if (flight.retries >= at_most) return false;
  ++flight.retries;
  counters_.retries.add();
  submit(flight);
  return true;
}

bool PieceDispatcher::isolate(PieceFlight& flight) {
  const std::uint64_t end = end_of_extent(flight);
  if (end >= flight.limit) return false;
  if (!flight.isolating) counters_.isolations.add();
  flight.isolating = true;
  flight.retries = 0;
  flight.limit = end;
  submit(flight);
  return true;
}

void PieceDispatcher::fail_part(PieceFlight& flight, const Status& why) {
  flight.operation->progress_.failed(flight.at(), flight.remaining(), why);
  flight.done = flight.limit;
  flight.retries = 0;
  go_on(flight);
}

void PieceDispatcher::stop(PieceFlight& flight) {
  flight.operation->stopped_ = true;
  release(flight);
}

// Where the extent that `done` is in ends, in bytes of the piece. A few short extents share one
// end where a unit is longer.
std::uint64_t PieceDispatcher::end_of_extent(const PieceFlight& flight) const {
  const std::uint64_t unit = unit_of(flight);
  const std::uint64_t end = flight.done + rest_of_extent(flight.operation->segments_, flight.at());
  return std::min(end + (unit - end % unit) % unit, flight.length);
}

void PieceDispatcher::release(PieceFlight& flight) {
  let_go(flight);
  PieceOperation& operation = *flight.operation;
  flight.operation = nullptr;
  free_.push_back(&flight);
  --in_flight_;
  --operation.in_flight_;
  complete_if_quiesced(operation);
}

}  // namespace towpath::backend
