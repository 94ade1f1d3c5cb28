#include <array>

#include <towpath/backends/gds/dispatcher.h>
#include <towpath/core/check.h>

namespace towpath::backends::gds {
namespace {

using backend::Segments;

constexpr std::size_t kReapBatch = 32;
constexpr unsigned kIndexBits = 16;  // of an id: the flight; above: how often it was used
constexpr std::uint64_t kIndexMask = (1ULL << kIndexBits) - 1;

const DeviceMemory& device_of(const backend::Segment& segment) noexcept {
  return *static_cast<const DeviceMemory*>(segment.local);
}
const FileMemory& file_of(const backend::Segment& segment) noexcept {
  return *static_cast<const FileMemory*>(segment.remote);
}

Status check_segment(const backend::Segment& segment, bool write) {
  const auto* local = static_cast<const GdsMemory*>(segment.local);
  const auto* remote = static_cast<const GdsMemory*>(segment.remote);
  if (local == nullptr || remote == nullptr)
    return error(Code::invalid_argument, "a segment lacks a memory");
  if (local->kind() != MemoryKind::device || remote->kind() != MemoryKind::disk)
    return error(Code::unsupported, cat("gds moves between device memory and disk, not between ",
                                        name_of(local->kind()), " and ", name_of(remote->kind())));
  const FileRecord& record = file_of(segment).record();
  if (!record.registered)
    return error(Code::not_found, cat(to_string(record.region), " was deregistered"),
                 "keep the registration as long as its file is used");
  if (record.file->allows(write)) return {};
  return error(Code::denied,
               cat(record.file->name(), " is open for ", write ? "reading" : "writing", " only"),
               "open it O_RDWR before its region is registered");
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

}  // namespace

GdsOperation::~GdsOperation() {
  TOWPATH_CHECK(!active_, "an operation was destroyed while it was active");
}
void GdsOperation::post(const backend::Request& request) { dispatcher_.start(*this, request); }
void GdsOperation::cancel() { dispatcher_.cancel(*this); }

Dispatcher::Dispatcher(const Options& options, Workers& workers, backend::Events& events,
                       Counters& counters)
    : options_(options),
      workers_(workers),
      events_(events),
      counters_(counters),
      flights_(options.depth) {
  TOWPATH_CHECK(options.depth <= kIndexMask, "more flights than an id can tell apart");
  free_.reserve(flights_.size());
  for (std::size_t i = flights_.size(); i-- > 0;) {
    flights_[i].id = i;
    free_.push_back(&flights_[i]);
  }
}

void Dispatcher::start(GdsOperation& operation, const backend::Request& request) {
  operation.segments_ = request.segments;
  operation.write_ = request.op == TransferOp::write;
  operation.active_ = true;
  operation.cancelled_ = operation.stopped_ = false;
  operation.ledger_.start(request.segments);
  if (Status bad = check_request(request.segments, operation.write_); !bad.ok())
    return complete(operation, {.status = std::move(bad)});
  operation.at_ = backend::first_byte(request.segments, {});
  if (operation.at_.segment == request.segments.size())
    return complete(operation, operation.ledger_.close(false));
  queue_.push_back(operation);
  if (busy_) return;
  busy_ = true;
  submit_some();
  busy_ = false;
}

void Dispatcher::cancel(GdsOperation& operation) {
  if (!operation.active_ || operation.cancelled_) return;
  operation.cancelled_ = true;
  operation.stopped_ = operation.turn_.queued;
  queue_.remove(operation);
  for (const Flight& flight : flights_) {
    if (flight.operation == &operation) workers_.cancel(flight.id);
  }
  complete_if_quiet(operation);
}

bool Dispatcher::progress() {
  if (busy_) return true;  // from inside an event
  busy_ = true;
  workers_.clear_wait_fd();  // first: what ends from here on is seen below, or wakes again
  bool worked = reap_some();
  worked = submit_some() || worked;
  busy_ = false;
  return worked;
}

bool Dispatcher::submit_some() {
  bool started = false;
  while (!queue_.empty() && !free_.empty()) {
    GdsOperation& operation = *queue_.front();
    Flight& flight = *free_.back();
    free_.pop_back();
    workers_.submit(next_job(operation, flight));
    ++operation.in_flight_;
    started = true;
    if (operation.at_.segment == operation.segments_.size())
      queue_.remove(operation);
    else
      queue_.rotate();
  }
  workers_.flush();
  return started;
}

/// From where the operation is, as far as memory and file go on together.
Job Dispatcher::next_job(GdsOperation& operation, Flight& flight) const {
  const Segments segments = operation.segments_;
  const backend::Segment& first = segments[operation.at_.segment];
  const backend::Extent start = extent_at(segments, operation.at_);
  flight.operation = &operation;
  flight.id += kIndexMask + 1;
  flight.start = operation.at_;
  flight.length = 0;
  while (operation.at_.segment < segments.size() && flight.length < options_.chunk_bytes) {
    const backend::Segment& segment = segments[operation.at_.segment];
    const backend::Extent next = extent_at(segments, operation.at_);
    const bool goes_on = segment.local == first.local &&
                         &file_of(segment).file() == &file_of(first).file() &&
                         next.local_address == start.local_address + flight.length &&
                         next.remote_address == start.remote_address + flight.length;
    if (!goes_on) break;
    const std::uint64_t bytes = std::min(next.length, options_.chunk_bytes - flight.length);
    flight.length += bytes;
    operation.at_ = advance(segments, operation.at_, bytes);
  }
  const DeviceMemory& memory = device_of(first);
  return {.id = flight.id,
          .write = operation.write_,
          .file = &file_of(first).file(),
          .memory = &memory,
          .memory_offset = start.local_address - memory.address(),
          .file_offset = start.remote_address,
          .length = flight.length};
}

bool Dispatcher::reap_some() {
  std::array<Done, kReapBatch> batch;
  const std::size_t count = workers_.reap(batch);
  for (const Done& done : std::span(batch).first(count)) {
    Flight& flight = flights_[done.id & kIndexMask];
    TOWPATH_CHECK(flight.operation != nullptr && flight.id == done.id, "a job came back twice");
    settle(flight, done.moved);
  }
  return count != 0;
}

void Dispatcher::settle(Flight& flight, const Moved& moved) {
  GdsOperation& operation = *flight.operation;
  operation.ledger_.moved(moved.bytes);
  counters_.moved(operation.write_).add(moved.bytes);
  if (moved.status.code() == Code::cancelled) {
    operation.stopped_ = true;
  } else if (!moved.status.ok()) {
    counters_.failures.add();
    operation.ledger_.failed(advance(operation.segments_, flight.start, moved.bytes),
                             flight.length - moved.bytes, moved.status);
  }
  flight.operation = nullptr;
  free_.push_back(&flight);
  --operation.in_flight_;
  complete_if_quiet(operation);
}

void Dispatcher::complete_if_quiet(GdsOperation& operation) {
  if (!operation.active_ || operation.turn_.queued || operation.in_flight_ != 0) return;
  complete(operation, operation.ledger_.close(operation.stopped_));
}

// The operation may be posted again, or be gone, when this returns.
void Dispatcher::complete(GdsOperation& operation, const backend::Completion& completion) {
  operation.active_ = false;
  events_.on_complete(operation, completion);
}

}  // namespace towpath::backends::gds
