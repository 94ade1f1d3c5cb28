// What a flight asks of the drive, what the answer means, and what happens next. See flight.h for
// the picture.
#include <algorithm>

#include <towpath/backends/nvme/dispatcher.h>
#include <towpath/backends/nvme/outcome.h>
#include <towpath/core/text.h>

namespace towpath::backends::nvme {
namespace {

// Without a byte of progress. The kernel holds commands back while a drive is reset, so this is for
// failures, not for waiting.
constexpr std::uint32_t kMaxRetries = 16;

Position place(const Flight& flight, Segments segments) noexcept {
  return advance(segments, flight.piece.start, flight.done);
}

Blocks blocks_in_engine(const Flight& flight, Segments segments) noexcept {
  return blocks_of(segments, place(flight, segments), flight.remaining(),
                   flight.info().block_bytes);
}

/// Whether the window holds what a write needs beside the user's own bytes.
bool writes(const Flight& flight, bool write) noexcept {
  return write && flight.step == Step::move;
}

std::string describe(const Flight& flight, Segments segments, bool write) {
  const Blocks blocks = blocks_in_engine(flight, segments);
  return cat(writes(flight, write) ? "the write of " : "the read of ", blocks.count, " blocks at ",
             blocks.lba, " of ", flight.info().path);
}

/// Where the stretch that `done` is in ends, in bytes of the piece. What is not read through a
/// window keeps to blocks: then a few short stretches share one end.
std::uint64_t end_of_stretch(const Flight& flight, Segments segments, bool write) noexcept {
  if (flight.piece.path == Path::modify) return flight.piece.length;
  std::uint64_t end = flight.done + rest_of_stretch(segments, place(flight, segments));
  if (write || flight.piece.path == Path::direct) {
    const std::uint64_t unit = flight.info().block_bytes;
    end += (unit - end % unit) % unit;
  }
  return std::min(end, flight.piece.length);
}

}  // namespace

Result<Command> Dispatcher::encode(Flight& flight) const {
  const Segments segments = flight.operation->segments_;
  const Position at = place(flight, segments);
  const NamespaceInfo& info = flight.info();
  const Blocks blocks = blocks_in_engine(flight, segments);
  const bool write = writes(flight, flight.operation->write_);
  const bool direct = flight.piece.path == Path::direct;
  if (write && !direct)
    gather(segments, at, flight.remaining(), flight.window, blocks.lba * info.block_bytes);
  const BlockIo io{
      .namespace_id = info.id,
      .lba = blocks.lba,
      .blocks = blocks.count,
      .block_bytes = info.block_bytes,
      .address = direct ? extent_at(segments, at).local_address : address_of(flight.window.data()),
      .force_unit_access = write && options_.durable && info.has_write_cache};
  return write ? encode_write(io) : encode_read(io);
}

void Dispatcher::submit(Flight& flight) {
  flight.id += 1ULL << kIndexBits;
  const Result<Command> command = encode(flight);
  if (!command.ok()) return fail_part(flight, command.status());
  engine_.submit({.id = flight.id, .target = &flight.piece.device->target(), .command = *command});
  counters_.commands.add();
  unflushed_ = true;
}

void Dispatcher::settle(Flight& flight, std::int32_t result) {
  NvmeOperation& operation = *flight.operation;
  if (result != 0) return on_error(flight, result);
  if (flight.step == Step::fetch) {
    if (operation.cancelled_) return stop(flight);
    flight.step = Step::move;
    flight.retries = 0;
    return submit(flight);
  }
  if (flight.piece.path == Path::bounce && !operation.write_) {
    const Segments segments = operation.segments_;
    scatter(segments, place(flight, segments), flight.remaining(), flight.window,
            blocks_in_engine(flight, segments).lba * flight.info().block_bytes);
  }
  on_moved(flight);
}

void Dispatcher::on_moved(Flight& flight) {
  NvmeOperation& operation = *flight.operation;
  operation.ledger_.moved(flight.remaining());
  counters_.moved(operation.write_, flight.piece.path).add(flight.remaining());
  flight.done = flight.limit;
  flight.retries = 0;
  go_on(flight);
}

// The part that was in the engine is settled.
void Dispatcher::go_on(Flight& flight) {
  if (flight.done == flight.piece.length) return release(flight);
  if (flight.operation->cancelled_) return stop(flight);
  flight.limit = end_of_stretch(flight, flight.operation->segments_, flight.operation->write_);
  submit(flight);
}

void Dispatcher::on_error(Flight& flight, std::int32_t result) {
  const NvmeOperation& operation = *flight.operation;
  if (operation.cancelled_) return stop(flight);
  if (is_worth_a_retry(result) && ++flight.retries <= kMaxRetries) {
    counters_.retries.add();
    return submit(flight);
  }
  const std::uint64_t end = end_of_stretch(flight, operation.segments_, operation.write_);
  if (end < flight.limit) {
    if (!flight.isolating) counters_.isolations.add();
    flight.isolating = true;
    flight.retries = 0;
    flight.limit = end;
    return submit(flight);
  }
  counters_.failures.add();
  fail_part(flight, failure_of(result, describe(flight, operation.segments_, operation.write_)));
}

void Dispatcher::fail_part(Flight& flight, const Status& why) {
  NvmeOperation& operation = *flight.operation;
  operation.ledger_.failed(place(flight, operation.segments_), flight.remaining(), why);
  flight.done = flight.limit;
  flight.retries = 0;
  go_on(flight);
}

void Dispatcher::stop(Flight& flight) {
  flight.operation->stopped_ = true;
  release(flight);
}

}  // namespace towpath::backends::nvme
