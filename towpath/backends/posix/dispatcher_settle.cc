// What an I/O's result means, and what happens next to its flight. See flight.h for the picture.
#include <algorithm>
#include <cerrno>

#include <towpath/backends/posix/dispatcher.h>
#include <towpath/core/text.h>
#include <towpath/sys/os_error.h>

namespace towpath::backends::posix {
namespace {

// Without a byte of progress. More than any signal storm; few enough to end soon.
constexpr std::uint32_t kMaxRetries = 64;

std::string describe(const Flight& flight, bool write) {
  return cat(write ? "the write of " : "the read of ", flight.remaining(), " bytes at offset ",
             flight.file_offset(), " of ", flight.file().name());
}

bool is_worth_a_retry(int errno_value) noexcept {
  // ECANCELED: of an I/O that nobody cancelled, such as one whose submitting thread has ended.
  return errno_value == EINTR || errno_value == EAGAIN || errno_value == ECANCELED;
}

Position place(const Flight& flight, Segments segments) noexcept {
  return advance(segments, flight.piece.start, flight.done);
}

/// Where the stretch that `done` is in ends, in bytes of the piece. Direct I/O keeps its alignment:
/// then a few short stretches share one end.
std::uint64_t end_of_stretch(const Flight& flight, Segments segments) noexcept {
  std::uint64_t end = flight.done + rest_of_stretch(segments, place(flight, segments));
  if (flight.piece.path == Path::direct) {
    const std::uint64_t unit = flight.file().alignment();
    end += (unit - end % unit) % unit;
  }
  return std::min(end, flight.piece.length);
}

}  // namespace

void Dispatcher::settle(Flight& flight, std::int32_t result) {
  if (result < 0) return on_error(flight, -result);
  auto bytes = static_cast<std::uint64_t>(result);
  if (flight.bounce) {
    const BounceWindow window = bounce_window(flight);
    counters_.bounce_bytes.add(bytes);
    bytes = std::min(bytes, window.buffer.size());
    bytes = bytes > window.skip ? std::min(bytes - window.skip, flight.remaining()) : 0;
    scatter(flight, window.buffer.subspan(window.skip, bytes));
  }
  if (bytes > flight.remaining())
    return fail_part(flight, error(Code::internal, cat(describe(flight, flight.operation->write_),
                                                       " is said to have moved ", bytes)));
  if (bytes == 0) return on_nothing(flight);
  on_moved(flight, bytes);
}

void Dispatcher::on_moved(Flight& flight, std::uint64_t bytes) {
  PosixOperation& operation = *flight.operation;
  if (operation.write_ && flight.piece.path == Path::direct) {
    // What ends inside a block is written again with the whole block.
    bytes -= (flight.done + bytes) % flight.file().alignment();
    if (bytes == 0) return retry_or_fail(flight, EIO);
  }
  operation.ledger_.moved(bytes);
  counters_.moved(operation.write_, flight.piece.path).add(bytes);
  flight.done += bytes;
  flight.retries = 0;
  if (flight.done == flight.limit) return go_on(flight);
  continue_short(flight);
}

void Dispatcher::continue_short(Flight& flight) {
  if (flight.operation->cancelled_) return stop(flight);
  counters_.short_continuations.add();
  const bool inside_a_block =
      flight.piece.path == Path::direct && flight.file_offset() % flight.file().alignment() != 0;
  if (inside_a_block) {
    // Direct reads end inside a block only where the file does. The rest is asked for through the
    // page cache, in case the file grew meanwhile.
    if (!flight.file().has_twin()) return on_nothing(flight);
    flight.piece.path = Path::buffered;
  }
  submit(flight);
}

// The part that was in the engine is settled.
void Dispatcher::go_on(Flight& flight) {
  if (flight.done == flight.piece.length) return release(flight);
  if (flight.operation->cancelled_) return stop(flight);
  flight.limit = end_of_stretch(flight, flight.operation->segments_);
  submit(flight);
}

void Dispatcher::on_error(Flight& flight, int errno_value) {
  const PosixOperation& operation = *flight.operation;
  if (operation.cancelled_) return stop(flight);
  if (is_worth_a_retry(errno_value)) return retry_or_fail(flight, errno_value);
  if (const std::uint64_t end = end_of_stretch(flight, operation.segments_); end < flight.limit) {
    if (!flight.isolating) counters_.isolations.add();
    flight.isolating = true;
    flight.limit = end;
    return submit(flight);
  }
  fail_part(flight, sys::os_error(errno_value, describe(flight, operation.write_)));
}

void Dispatcher::retry_or_fail(Flight& flight, int errno_value) {
  if (flight.operation->cancelled_) return stop(flight);
  if (++flight.retries <= kMaxRetries) {
    counters_.retries.add();
    return submit(flight);
  }
  fail_part(flight, error(Code::io_error, cat(describe(flight, flight.operation->write_),
                                              " moved nothing in ", flight.retries, " tries"))
                        .because(sys::os_error(errno_value, "the last try")));
}

// The engine said that all is well, and moved no byte.
void Dispatcher::on_nothing(Flight& flight) {
  if (flight.operation->cancelled_) return stop(flight);
  if (flight.operation->write_) return retry_or_fail(flight, EIO);
  const Result<std::uint64_t> size = flight.file().size();
  if (!size.ok()) return fail_part(flight, size.status());
  if (*size > flight.file_offset()) return retry_or_fail(flight, EIO);
  flight.limit = flight.piece.length;  // the file ends before all of it
  fail_part(flight,
            error(Code::out_of_range, cat(describe(flight, false), ", which ends at ", *size),
                  "the file was never that long, or was cut: write it before reading"));
}

void Dispatcher::fail_part(Flight& flight, const Status& why) {
  PosixOperation& operation = *flight.operation;
  operation.ledger_.failed(place(flight, operation.segments_), flight.remaining(), why);
  flight.done = flight.limit;
  go_on(flight);
}

void Dispatcher::stop(Flight& flight) {
  flight.operation->stopped_ = true;
  release(flight);
}

}  // namespace towpath::backends::posix
