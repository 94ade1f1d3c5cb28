#include <towpath/core/check.h>
#include <towpath/core/text.h>
#include <towpath/staging/lane.h>

namespace towpath::staging {

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
  TOWPATH_TRY(StagingBuffer buffer, StagingBuffer::make(device, slots.count * slots.bytes));
  TOWPATH_TRY(auto registered, inner.register_memory({.kind = buffer.kind(),
                                                      .address = buffer.address(),
                                                      .length = buffer.size(),
                                                      .may_fault = false}));
  std::unique_ptr<Lane> lane(new Lane(std::move(buffer), std::move(registered), waker, slots));
  for (std::uint32_t i = 0; i < slots.count; ++i) {
    auto flight = std::make_unique<Flight>();
    flight->slot_address = lane->buffer_.address() + i * slots.bytes;
    flight->inner = inner.make_operation();
    flight->inner->owner = static_cast<Listener*>(flight.get());
    TOWPATH_TRY(flight->copied, device->create_event());
    lane->free_.push_back(flight.get());
    lane->flights_.push_back(std::move(flight));
  }
  return lane;
}

Lane::Lane(StagingBuffer buffer, std::unique_ptr<backend::Memory> registered, run::Waker& waker,
           const Slots& slots)
    : buffer_(std::move(buffer)),
      registered_(std::move(registered)),
      waker_(waker),
      slots_(slots) {}

std::string Lane::describe() const {
  return cat("staged through ", slots_.count, " slots of ", format_bytes(slots_.bytes), " of ",
             buffer_.refusal().empty() ? "pinned host memory"
                                       : cat("plain host memory (", buffer_.refusal(), ")"));
}

void Lane::start(StagedOperation& operation, const backend::Request& request) {
  operation.segments = request.segments;
  operation.connection_ = request.connection;
  operation.write_ = request.op == TransferOp::write;
  operation.active_ = true;
  operation.cancelled_ = operation.stopped_ = false;
  operation.progress_.start(request.segments);
  operation.at = backend::first_byte(request.segments, {});
  if (operation.is_loaded()) return complete_if_quiesced(operation);
  queue_.push_back(operation);
  catch_up();
}

void Lane::cancel(StagedOperation& operation) {
  if (!operation.active_ || operation.cancelled_) return;
  operation.cancelled_ = true;
  operation.stopped_ = operation.turn_.queued;
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
  busy_ = true;
  bool worked = false;
  for (const auto& flight : flights_) worked = advance(*flight) || worked;
  worked = launch() || worked;
  busy_ = false;
  return worked;
}

bool Lane::launch() {
  bool launched = false;
  while (!queue_.empty() && !free_.empty()) {
    StagedOperation& operation = *queue_.front();
    Flight& flight = *free_.back();
    free_.pop_back();
    flight.load(operation, slots_.bytes, *registered_);
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
  if (!done.ok()) flight.fail(done.status());
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
  if (const Status given = start_copy(flight, to_device); !given.ok()) {
    // Some may have been given: they end before the slot is used again.
    (void)(to_device ? buffer_.to_device() : buffer_.to_host()).synchronize();
    flight.fail(given);
    finish(flight);
  }
}

Status Lane::start_copy(Flight& flight, bool to_device) {
  device::Stream& stream = to_device ? buffer_.to_device() : buffer_.to_host();
  TOWPATH_TRY(stream.copy_batch(flight.copies(to_device)));
  TOWPATH_TRY(stream.record(*flight.copied));
  return stream.run([&waker = waker_] { waker.wake(); });
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
