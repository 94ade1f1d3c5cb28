#include <algorithm>
#include <new>
#include <set>

#include <towpath/backend/raised.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/staging/lane.h>

namespace towpath::staging {
namespace {

bool is_empty(const backend::Segment& segment) { return segment.length == 0 || segment.count == 0; }

/// Null is the inner backend's to refuse.
bool is_put_whole(const backend::Memory* memory) {
  return memory != nullptr && memory->is_put_whole;
}

/// What a slot has room for.
struct Room {
  std::uint64_t bytes = 0;
  std::uint64_t pieces = kMaxParts;

  bool take(const backend::Segment& segment) {
    if (segment.count > pieces || segment.length > bytes / segment.count) return false;
    pieces -= segment.count;
    bytes -= segment.count * segment.length;
    return true;
  }
};

/// Whether there is room for all that is named of one remote memory in a row, from `first` on.
bool fits(backend::Segments segments, std::uint64_t first, Room room) {
  for (const backend::Segment& segment : segments.subspan(first)) {
    if (is_empty(segment)) continue;
    if (segment.remote != segments[first].remote) break;
    if (!room.take(segment)) return false;
  }
  return true;
}

/// Whether a write can be cut between objects alone. Else it is refused before a byte moves: of an
/// object that goes in parts a store would keep the first.
Status check_whole(backend::Segments segments, std::uint64_t slot_bytes) {
  Room room{.bytes = slot_bytes};
  const auto has_place = [&](const backend::Segment& segment) {
    return is_empty(segment) || room.take(segment);
  };
  if (std::ranges::all_of(segments, has_place)) return {};
  std::set<const backend::Memory*> seen;
  const backend::Memory* last = nullptr;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (is_empty(segments[i]) || segments[i].remote == last) continue;
    last = segments[i].remote;
    if (!is_put_whole(last)) continue;
    if (!seen.insert(last).second)
      return error(Code::unsupported,
                   cat("segment ", i, " goes to an object that was named before others"),
                   "name what goes to one object in a row, or raise staging_bytes");
    if (!fits(segments, i, {.bytes = slot_bytes}))
      return error(Code::unsupported,
                   cat("what goes to the object of segment ", i, " is longer than a slot of ",
                       format_bytes(slot_bytes), ", or in more than ", kMaxParts,
                       " pieces: objects are put whole"),
                   "raise staging_bytes, or write it from host memory");
  }
  return {};
}

}  // namespace

void Flight::load(StagedOperation& its_operation, const Load& what) {
  operation = &its_operation;
  count = 0;
  segments.clear();
  std::uint64_t used = 0;
  const backend::Memory* remote = nullptr;
  while (!its_operation.is_loaded() && used < what.slot_bytes && count < kMaxParts) {
    backend::Position& at = its_operation.at;
    const backend::Memory* const to = its_operation.segments[at.segment].remote;
    if (is_put_whole(to) && used > 0 && to != remote &&
        !fits(its_operation.segments, at.segment,
              {.bytes = what.slot_bytes - used, .pieces = kMaxParts - count}))
      break;
    remote = to;
    const backend::Extent next = extent_at(its_operation.segments, at);
    const std::uint64_t bytes = std::min(next.length, what.slot_bytes - used);
    parts[count] = {.start = at,
                    .device_address = next.local_address,
                    .slot_address = slot_address + used,
                    .length = bytes};
    segments.push_back({.local = &what.buffer,
                        .remote = its_operation.segments[at.segment].remote,
                        .local_address = slot_address + used,
                        .remote_address = next.remote_address,
                        .length = bytes});
    ++count;
    used += bytes;
    at = advance(its_operation.segments, at, bytes);
  }
}

void Flight::on_end(const backend::Completion& completion) {
  state = State::arrived;
  // Failures that are named leave the others in place; a failure of the whole leaves nothing.
  const bool all_failed = !completion.status.ok() && completion.failures.empty();
  if (all_failed) return fail(completion.status);
  for (Part& part : std::span(parts).first(count)) part.moved = part.length;
  for (const backend::SegmentFailure& failure : completion.failures) {
    parts[failure.segment].moved = failure.bytes;
    parts[failure.segment].status = failure.status;
  }
}

void Flight::fail(const Status& why) {
  for (Part& part : std::span(parts).first(count)) {
    part.moved = 0;
    part.status = why;
  }
}

const std::vector<device::Copy>& Flight::copies(bool to_device) {
  copies_.clear();
  for (const Part& part : std::span(parts).first(count)) {
    const std::uint64_t bytes = to_device ? part.moved : part.length;
    if (bytes == 0) continue;
    copies_.push_back({to_device ? part.device_address : part.slot_address,
                       to_device ? part.slot_address : part.device_address, bytes});
  }
  return copies_;
}

// ---- StagedOperation

StagedOperation::StagedOperation(std::unique_ptr<backend::Operation> plain, backend::Events& events)
    : plain_(std::move(plain)), events_(events) {
  plain_->owner = static_cast<Listener*>(this);
}

StagedOperation::~StagedOperation() {
  TOWPATH_CHECK(!active_, "an operation was destroyed while it was active");
}

void StagedOperation::post(const backend::Request& request) {
  const auto* staged = request.segments.empty()
                           ? nullptr
                           : dynamic_cast<const StagedMemory*>(request.segments.front().local);
  lane_ = staged == nullptr ? nullptr : &staged->lane();
  if (lane_ == nullptr) return plain_->post(request);
  lane_->start(*this, request);
}

void StagedOperation::cancel() {
  if (lane_ == nullptr) return plain_->cancel();
  lane_->cancel(*this);
}

void StagedOperation::on_end(const backend::Completion& completion) {
  events_.on_complete(*this, completion);
}

// ---- Lane

Result<std::unique_ptr<Lane>> Lane::open(std::shared_ptr<device::Device> device,
                                         backend::Backend& inner, run::Waker& waker,
                                         const Slots& slots) {
  TOWPATH_TRY(device::BounceSlots memory,
              device::BounceSlots::make(device.get(), {slots.count, slots.bytes}));
  TOWPATH_TRY(auto registered, inner.register_memory({.kind = memory.kind(),
                                                      .address = address_of(memory.bytes().data()),
                                                      .length = memory.bytes().size(),
                                                      .may_fault = false}));
  std::unique_ptr<Lane> lane(new Lane(device, std::move(memory), std::move(registered), waker));
  for (std::uint32_t i = 0; i < slots.count; ++i) {
    auto flight = std::make_unique<Flight>();
    flight->slot_address = address_of(lane->memory_.take().data());
    flight->inner = inner.make_operation();
    flight->inner->owner = static_cast<Listener*>(flight.get());
    TOWPATH_TRY(flight->copied, device->create_event());
    lane->free_.push_back(flight.get());
    lane->flights_.push_back(std::move(flight));
  }
  return lane;
}

Lane::Lane(std::shared_ptr<device::Device> device, device::BounceSlots memory,
           std::unique_ptr<backend::Memory> registered, run::Waker& waker)
    : memory_(std::move(memory)),
      registered_(std::move(registered)),
      waker_(waker),
      to_device_(device),
      to_host_(std::move(device)) {}

std::string Lane::describe() const {
  return cat("staged through ", memory_.size().slots, " slots of ",
             format_bytes(memory_.size().slot_bytes), " of ",
             refusal().ok() ? "pinned host memory"
                            : cat("plain host memory (", refusal().to_string(), ")"));
}

void Lane::start(StagedOperation& operation, const backend::Request& request) {
  operation.segments = request.segments;
  operation.connection_ = request.connection;
  operation.write_ = request.op == TransferOp::write;
  operation.active_ = true;
  operation.cancelled_ = operation.stopped_ = false;
  operation.progress_.start(request.segments);
  operation.at = backend::first_byte(request.segments, {});
  if (Status refused = check(operation); !refused.ok()) {
    operation.active_ = false;
    return operation.events_.on_complete(operation, {.status = std::move(refused)});
  }
  if (operation.is_loaded()) return complete_if_quiesced(operation);
  queue_.push_back(operation);
  catch_up();
}

Status Lane::check(const StagedOperation& operation) const {
  if (!operation.write_) return {};
  try {
    return check_whole(operation.segments, memory_.size().slot_bytes);
  } catch (const std::bad_alloc&) {
    return operation.progress_.no_memory();
  }
}

void Lane::cancel(StagedOperation& operation) {
  if (!operation.active_) return;
  operation.cancelled_ = true;  // perhaps again: memory may have run out before all was asked
  operation.stopped_ = operation.stopped_ || operation.turn_.queued;
  queue_.remove(operation);
  if (operation.in_flight_ == 0) return complete_if_quiesced(operation);
  for (const auto& flight : flights_) {
    if (flight->operation == &operation && flight->state == Flight::State::moving)
      flight->inner->cancel();
  }
  catch_up();
}

bool Lane::progress() {
  if (busy_) return true;  // from inside an event
  return step();
}

// What ends inside of our own calls into the backend is reported at once, so it is looked for
// again.
void Lane::catch_up() {
  if (busy_) return;
  const auto has_arrived = [this] {
    for (const auto& flight : flights_) {
      if (flight->state == Flight::State::arrived) return true;
    }
    return false;
  };
  do {
    step();
  } while (has_arrived());
}

bool Lane::step() {
  const backend::Raised busy(busy_);
  bool worked = false;
  for (const auto& flight : flights_) worked = advance(*flight) || worked;
  return launch() || worked;
}

bool Lane::launch() {
  bool launched = false;
  while (!queue_.empty() && !free_.empty()) {
    StagedOperation& operation = *queue_.front();
    Flight& flight = *free_.back();
    free_.pop_back();
    flight.load(operation, {.slot_bytes = memory_.size().slot_bytes, .buffer = *registered_});
    ++operation.in_flight_;
    operation.is_loaded() ? queue_.remove(operation) : queue_.rotate();
    operation.write_ ? copy(flight, false) : move(flight);
    launched = true;
  }
  return launched;
}

/// What a flight can do now. True: it did something.
bool Lane::advance(Flight& flight) {
  if (flight.state == Flight::State::arrived) {
    const StagedOperation& operation = *flight.operation;
    if (operation.write_ || operation.cancelled_ || flight.copies(true).empty()) {
      finish(flight);
    } else {
      copy(flight, true);
    }
    return true;
  }
  if (flight.state != Flight::State::copying) return false;
  const Result<bool> done = flight.copied->is_done();
  if (done.ok() && !*done) return false;
  if (!done.ok()) {
    // A stream whose work failed may have passed some of it only.
    stream(!flight.operation->write_).drop();
    flight.fail(done.status());
  }
  const bool goes_on = done.ok() && flight.operation->write_ && !flight.operation->cancelled_;
  goes_on ? move(flight) : finish(flight);
  return true;
}

void Lane::move(Flight& flight) {
  const StagedOperation& operation = *flight.operation;
  flight.state = Flight::State::moving;
  flight.inner->post({.op = operation.write_ ? TransferOp::write : TransferOp::read,
                      .connection = operation.connection_,
                      .segments = flight.segments});
}

void Lane::copy(Flight& flight, bool to_device) {
  flight.state = Flight::State::copying;
  Status given;
  try {
    given = start_copy(flight, to_device);
  } catch (const std::bad_alloc&) {  // then nothing of it moves
    given = flight.operation->progress_.no_memory();
  }
  if (given.ok()) return;
  flight.fail(given);
  finish(flight);
}

Status Lane::start_copy(Flight& flight, bool to_device) {
  return stream(to_device).give([&](device::Stream& stream) -> Status {
    TOWPATH_TRY(stream.copy_batch(flight.copies(to_device)));
    TOWPATH_TRY(stream.record(*flight.copied));
    return stream.run([&waker = waker_] { waker.wake(); });
  });
}

void Lane::finish(Flight& flight) {
  StagedOperation& operation = *flight.operation;
  // Of a read that was stopped, what is in the slot stays there.
  const bool only_in_slot = !operation.write_ && flight.state == Flight::State::arrived;
  for (const Part& part : std::span(flight.parts).first(flight.count)) {
    const std::uint64_t moved = only_in_slot ? 0 : part.moved;
    operation.progress_.moved(moved);
    if (moved == part.length) continue;
    if (operation.cancelled_ || part.status.code() == Code::cancelled)
      operation.stopped_ = true;
    else
      operation.progress_.failed(backend::advance(operation.segments, part.start, moved),
                                 part.length - moved, part.status);
  }
  flight.operation = nullptr;
  flight.state = Flight::State::free;
  free_.push_back(&flight);
  --operation.in_flight_;
  complete_if_quiesced(operation);
}

// The operation may be posted again, or be gone, when this returns.
void Lane::complete_if_quiesced(StagedOperation& operation) {
  if (!operation.active_ || operation.turn_.queued || operation.in_flight_ != 0) return;
  operation.active_ = false;
  operation.events_.on_complete(operation, operation.progress_.close(operation.stopped_));
}

}  // namespace towpath::staging
