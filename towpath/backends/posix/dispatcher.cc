#include <algorithm>
#include <array>

#include <towpath/backends/posix/dispatcher.h>
#include <towpath/core/text.h>

namespace towpath::backends::posix {
namespace {

constexpr std::size_t kReapBatch = 32;
// A buffered I/O may copy its bytes inside the system call that starts it, so a batch of them is
// cut here to keep progress() short.
constexpr std::uint64_t kBufferedBatchBytes = 1U << 20U;
// A late wake-up may find nothing; then wait_fd() is cleared at every so many calls.
constexpr std::uint32_t kClearEvery = 16;

constexpr unsigned kIndexBits = 16;  // of an id: the flight; above: how often it was used
constexpr std::uint64_t kIndexMask = (1ULL << kIndexBits) - 1;

Status check_segment(const backend::Segment& segment, bool write) {
  const auto* local = static_cast<const PosixMemory*>(segment.local);
  const auto* remote = static_cast<const PosixMemory*>(segment.remote);
  if (local == nullptr || remote == nullptr)
    return error(Code::invalid_argument, "a segment lacks a memory");
  if (!is_host_addressable(local->kind()) || remote->kind() != MemoryKind::disk)
    return error(Code::unsupported, cat("posix moves between host memory and disk, not between ",
                                        name_of(local->kind()), " and ", name_of(remote->kind())));
  const auto& disk = static_cast<const DiskMemory&>(*remote);
  if (!disk.record().registered)
    return error(Code::not_found, cat(to_string(disk.record().region), " was deregistered"),
                 "keep the registration as long as its file is used");
  const OpenFile& file = disk.file();
  if (!file.allows(write))
    return error(Code::denied,
                 cat(file.name(), " is open for ", write ? "reading" : "writing", " only"),
                 "open it O_RDWR before its region is registered");
  return {};
}

Status check_request(Segments segments, bool write) {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const bool same = i != 0 && segments[i].local == segments[i - 1].local &&
                      segments[i].remote == segments[i - 1].remote;
    if (same) continue;
    if (Status bad = check_segment(segments[i], write); !bad.ok())
      return error(bad.code(), cat("segment ", i, ": ", bad.message()), std::string(bad.remedy()));
  }
  return {};
}

Ending ending_of(const Status& status) noexcept {
  if (status.ok()) return Ending::done;
  return status.code() == Code::cancelled ? Ending::cancelled : Ending::failed;
}

}  // namespace

Dispatcher::Dispatcher(const Options& options, Engine& engine, backend::Events& events,
                       Counters& counters)
    : engine_(engine),
      events_(events),
      limits_(options.limits),
      buffers_for_page_cache_(options.buffers_for_page_cache),
      counters_(counters),
      bounce_({.buffers = options.bounce_buffers, .buffer_bytes = options.limits.bounce_bytes}),
      flights_(options.depth) {
  TOWPATH_CHECK(options.depth <= kIndexMask, "more flights than an id can tell apart");
  free_.reserve(flights_.size());
  for (std::size_t i = flights_.size(); i-- > 0;) {
    flights_[i].id = i;
    free_.push_back(&flights_[i]);
  }
}

void Dispatcher::start(PosixOperation& operation, const backend::Request& request) {
  operation.segments_ = request.segments;
  operation.write_ = request.op == TransferOp::write;
  operation.active_ = true;
  operation.cancelled_ = operation.stopped_ = false;
  operation.ledger_.start(request.segments);
  if (Status bad = check_request(request.segments, operation.write_); !bad.ok())
    return complete(operation, {.status = std::move(bad)});
  operation.splitter_.start(request.segments, operation.write_, limits_);
  if (operation.splitter_.done()) return complete(operation, operation.ledger_.close(false));
  queue_.push_back(operation);
  if (busy_) return;
  busy_ = true;
  submit_some();
  reap_some();
  busy_ = false;
}

void Dispatcher::cancel(PosixOperation& operation) {
  if (!operation.active_ || operation.cancelled_) return;
  operation.cancelled_ = true;
  operation.stopped_ = operation.turn_.queued;
  queue_.remove(operation);
  if (operation.in_flight_ != 0) {
    for (const Flight& flight : flights_) {
      if (flight.operation == &operation) engine_.cancel(flight.id);
    }
  }
  complete_if_quiet(operation);
}

bool Dispatcher::progress() {
  if (busy_) return true;  // from inside an event
  busy_ = true;
  bool worked = reap_some() != 0;
  worked = submit_some() || worked;
  if (worked) {
    idle_calls_ = 0;
  } else if (idle_calls_++ % kClearEvery == 0) {
    // Cleared first, then looked at: what ends in between is seen here or wakes again.
    engine_.clear_wait_fd();
    worked = reap_some() != 0;
    worked = submit_some() || worked;
  }
  busy_ = false;
  return worked || unflushed_;
}

// True: it started something, or more could be started at once.
bool Dispatcher::submit_some() {
  std::uint64_t buffered_budget = kBufferedBatchBytes;
  std::size_t waiting = 0;
  bool started = false;
  while (!queue_.empty() && !free_.empty() && waiting < queue_.size() && buffered_budget != 0) {
    PosixOperation& operation = *queue_.front();
    if (launch(operation, buffered_budget) == Launch::waits) {
      ++waiting;
      queue_.rotate();
      continue;
    }
    started = true;
    waiting = 0;
    if (!operation.splitter_.done()) {
      queue_.rotate();
      continue;
    }
    queue_.remove(operation);
    complete_if_quiet(operation);
  }
  flush();
  return started;
}

Dispatcher::Launch Dispatcher::launch(PosixOperation& operation, std::uint64_t& buffered_budget) {
  Flight& flight = *free_.back();
  flight.piece = operation.splitter_.next(flight.parts);
  const Piece& piece = flight.piece;
  if (operation.write_ && piece.path == Path::buffered && piece.disk->file().refuses_unaligned()) {
    operation.ledger_.failed(piece.start, piece.length, piece.disk->file().unaligned_refusal());
    return Launch::started;
  }
  if (!admit(flight, operation.write_)) {
    operation.splitter_.rewind(piece);
    return Launch::waits;
  }
  free_.pop_back();
  flight.operation = &operation;
  flight.done = 0;
  flight.limit = piece.length;
  flight.isolating = false;
  flight.retries = 0;
  ++operation.in_flight_;
  ++in_flight_;
  submit(flight);
  if (piece.path == Path::buffered) buffered_budget -= std::min(buffered_budget, piece.length);
  return Launch::started;
}

// Whether the piece may go to the engine now; takes what it needs for that.
bool Dispatcher::admit(Flight& flight, bool write) {
  OpenFile& file = flight.file();
  if (flight.piece.path == Path::bounce) {
    flight.bounce = bounce_.take();
    return static_cast<bool>(flight.bounce);
  }
  if (!write || !file.direct()) return true;
  if (flight.piece.path == Path::direct) {
    file.enter_direct_write();
    return true;
  }
  file.buffer_writes();
  return !file.has_direct_writes();
}

void Dispatcher::flush() {
  if (!unflushed_) return;
  counters_.batches.add();
  unflushed_ = !engine_.flush();
}

std::size_t Dispatcher::reap_some() {
  std::array<Done, kReapBatch> batch;
  const std::size_t count = engine_.reap(batch);
  for (const Done& done : std::span(batch).first(count)) {
    const std::uint64_t index = done.id & kIndexMask;
    if (index < flights_.size() && flights_[index].operation != nullptr &&
        flights_[index].id == done.id)
      settle(flights_[index], done.result);
    else
      counters_.strays.add();
  }
  return count;
}

void Dispatcher::submit(Flight& flight) {
  flight.id += kIndexMask + 1;
  std::uint32_t count = 1;
  if (flight.bounce)
    flight.active[0] = sys::IoPart::of(bounce_window(flight).buffer);
  else
    count = select_parts(flight);
  const bool registered =
      count == 1 && (flight.piece.path == Path::direct ||
                     (flight.piece.path == Path::buffered && buffers_for_page_cache_));
  const int slot = registered ? flight.piece.local->slot_of(flight.active[0]) : kNoSlot;
  engine_.submit({.id = flight.id,
                  .write = flight.operation->write_,
                  .file = flight.file().engine_file(flight.piece.path),
                  .offset = flight.bounce ? bounce_window(flight).offset : flight.file_offset(),
                  .parts = std::span(flight.active).first(count),
                  .buffer_slot = slot});
  counters_.submissions.add();
  if (slot != kNoSlot) counters_.registered_ios.add();
  unflushed_ = true;
}

void Dispatcher::release(Flight& flight) {
  PosixOperation& operation = *flight.operation;
  if (flight.bounce) bounce_.give_back(std::exchange(flight.bounce, {}));
  if (operation.write_ && flight.piece.path == Path::direct) flight.file().leave_direct_write();
  flight.operation = nullptr;
  free_.push_back(&flight);
  --in_flight_;
  --operation.in_flight_;
  complete_if_quiet(operation);
}

bool Dispatcher::touches(const PosixMemory& memory) const noexcept {
  for (const Flight& flight : flights_) {
    if (flight.operation == nullptr) continue;
    const Segments segments = flight.operation->segments_;
    const std::uint64_t last =
        advance(segments, flight.piece.start, flight.piece.length - 1).segment;
    for (std::uint64_t i = flight.piece.start.segment; i <= last; ++i) {
      if (segments[i].local == &memory || segments[i].remote == &memory) return true;
    }
  }
  return false;
}

void Dispatcher::complete_if_quiet(PosixOperation& operation) {
  if (!operation.active_ || operation.turn_.queued || operation.in_flight_ != 0) return;
  complete(operation, operation.ledger_.close(operation.stopped_));
}

// The operation may be posted again, or be gone, when this returns.
void Dispatcher::complete(PosixOperation& operation, const backend::Completion& completion) {
  operation.active_ = false;
  counters_.ended(operation.write_, ending_of(completion.status)).add();
  events_.on_complete(operation, completion);
}

}  // namespace towpath::backends::posix
