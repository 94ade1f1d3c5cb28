#include <algorithm>
#include <array>

#include <towpath/backends/nvme/dispatcher.h>
#include <towpath/core/check.h>
#include <towpath/core/text.h>

namespace towpath::backends::nvme {
namespace {

constexpr std::size_t kReapBatch = 32;
// What goes over a window is copied inside progress(): a batch of it is cut here to stay short.
constexpr std::uint64_t kCopiedBatchBytes = 1U << 20U;
// A late wake-up may find nothing; then wait_fd() is cleared at every so many calls.
constexpr std::uint32_t kClearEvery = 16;

constexpr std::uint64_t kIndexMask = (1ULL << kIndexBits) - 1;

Status check_segment(const backend::Segment& segment, bool write) {
  const auto* local = static_cast<const NvmeMemory*>(segment.local);
  const auto* remote = static_cast<const NvmeMemory*>(segment.remote);
  if (local == nullptr || remote == nullptr)
    return error(Code::invalid_argument, "a segment lacks a memory");
  if (!is_host_addressable(local->kind()) || remote->kind() != MemoryKind::block)
    return error(Code::unsupported,
                 cat("nvme moves between mapped memory and namespaces, not between ",
                     name_of(local->kind()), " and ", name_of(remote->kind())));
  const auto& device = static_cast<const BlockMemory&>(*remote);
  if (!device.record().registered)
    return error(Code::not_found, cat(to_string(device.record().region), " was deregistered"),
                 "keep the registration as long as the namespace is used");
  if (write && !device.writable())
    return error(
        Code::denied, cat(device.info().path, " may not be written to"),
        "say so if what is on it may be lost: BlockAccess::read_write, or the key rw:PATH");
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

bool overlap(const Blocks& a, const Blocks& b) noexcept {
  return a.lba < b.lba + b.count && b.lba < a.lba + a.count;
}

}  // namespace

Dispatcher::Dispatcher(const Options& options, sys::Mapping windows, Engine& engine,
                       backend::Events& events, Counters& counters)
    : options_(options),
      windows_(std::move(windows)),
      engine_(engine),
      events_(events),
      counters_(counters),
      flights_(options.depth) {
  TOWPATH_CHECK(options.depth <= kIndexMask, "more flights than an id can tell apart");
  TOWPATH_CHECK(windows_.size() >= options.depth * kWindowBytes, "a flight without a window");
  free_.reserve(flights_.size());
  for (std::size_t i = flights_.size(); i-- > 0;) {
    flights_[i].id = i;
    flights_[i].window = windows_.bytes().subspan(i * kWindowBytes, kWindowBytes);
    free_.push_back(&flights_[i]);
  }
}

void Dispatcher::start(NvmeOperation& operation, const backend::Request& request) {
  operation.segments_ = request.segments;
  operation.write_ = request.op == TransferOp::write;
  operation.active_ = true;
  operation.cancelled_ = operation.stopped_ = false;
  operation.ledger_.start(request.segments);
  if (Status bad = check_request(request.segments, operation.write_); !bad.ok())
    return complete(operation, {.status = std::move(bad)});
  operation.splitter_.start(request.segments, operation.write_);
  if (operation.splitter_.done()) return complete(operation, operation.ledger_.close(false));
  queue_.push_back(operation);
  if (busy_) return;
  busy_ = true;
  submit_some();
  reap_some();
  busy_ = false;
}

void Dispatcher::cancel(NvmeOperation& operation) {
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
  std::uint64_t copy_budget = kCopiedBatchBytes;
  std::size_t waiting = 0;
  bool started = false;
  while (!queue_.empty() && !free_.empty() && waiting < queue_.size() && copy_budget != 0) {
    NvmeOperation& operation = *queue_.front();
    if (launch(operation, copy_budget) == Launch::waits) {
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

Dispatcher::Launch Dispatcher::launch(NvmeOperation& operation, std::uint64_t& copy_budget) {
  Flight& flight = *free_.back();
  flight.piece = operation.splitter_.next();
  const Piece& piece = flight.piece;
  flight.blocks =
      blocks_of(operation.segments_, piece.start, piece.length, flight.info().block_bytes);
  if (operation.write_ && must_wait(flight)) {
    operation.splitter_.rewind(piece);
    return Launch::waits;
  }
  free_.pop_back();
  flight.operation = &operation;
  flight.done = 0;
  flight.limit = piece.length;
  flight.step = piece.path == Path::modify ? Step::fetch : Step::move;
  flight.isolating = false;
  flight.retries = 0;
  ++operation.in_flight_;
  ++in_flight_;
  submit(flight);
  if (piece.path != Path::direct) copy_budget -= std::min(copy_budget, piece.length);
  return Launch::started;
}

// Whether a write that is under way changes the same block, or would be undone by this one.
bool Dispatcher::must_wait(const Flight& flight) const noexcept {
  return std::ranges::any_of(flights_, [&](const Flight& other) {
    return other.operation != nullptr && other.operation->write_ &&
           (other.piece.path == Path::modify || flight.piece.path == Path::modify) &&
           &other.piece.device->target() == &flight.piece.device->target() &&
           overlap(other.blocks, flight.blocks);
  });
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

void Dispatcher::release(Flight& flight) {
  NvmeOperation& operation = *flight.operation;
  flight.operation = nullptr;
  free_.push_back(&flight);
  --in_flight_;
  --operation.in_flight_;
  complete_if_quiet(operation);
}

bool Dispatcher::touches(const NvmeMemory& memory) const noexcept {
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

void Dispatcher::complete_if_quiet(NvmeOperation& operation) {
  if (!operation.active_ || operation.turn_.queued || operation.in_flight_ != 0) return;
  complete(operation, operation.ledger_.close(operation.stopped_));
}

// The operation may be posted again, or be gone, when this returns.
void Dispatcher::complete(NvmeOperation& operation, const backend::Completion& completion) {
  operation.active_ = false;
  events_.on_complete(operation, completion);
}

}  // namespace towpath::backends::nvme
