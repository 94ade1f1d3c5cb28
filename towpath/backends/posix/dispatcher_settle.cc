// What an I/O's result means, and what happens next to its flight.
#include <algorithm>
#include <cerrno>

#include <towpath/backends/posix/dispatcher.h>
#include <towpath/core/format.h>
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

}  // namespace

// Direct I/O keeps its alignment.
std::uint64_t Dispatcher::unit_of(const backend::PieceFlight& carrier) const {
  const auto& flight = static_cast<const Flight&>(carrier);
  return flight.piece.path == Path::direct ? flight.file().alignment() : 1;
}

void Dispatcher::settle(backend::PieceFlight& carrier, std::int32_t result) {
  auto& flight = static_cast<Flight&>(carrier);
  if (result < 0) return on_error(flight, -result);
  auto bytes = static_cast<std::uint64_t>(result);
  if (!flight.bounce.empty()) {
    const BounceWindow window = bounce_window(flight);
    counters_.bounce_bytes.add(bytes);
    bytes = std::min(bytes, window.buffer.size());
    bytes = bytes > window.skip ? std::min(bytes - window.skip, flight.remaining()) : 0;
    scatter(flight, window.buffer.subspan(window.skip, bytes));
  }
  if (bytes > flight.remaining())
    return fail_part(flight, error(Code::internal, cat(describe(flight, flight.operation->writes()),
                                                       " is said to have moved ", bytes)));
  if (bytes == 0) return on_nothing(flight);
  on_moved(flight, bytes);
}

void Dispatcher::on_moved(Flight& flight, std::uint64_t bytes) {
  const bool write = flight.operation->writes();
  if (write && flight.piece.path == Path::direct) {
    // What ends inside a block is written again with the whole block.
    bytes -= (flight.done + bytes) % flight.file().alignment();
    if (bytes == 0) return retry_or_fail(flight, EIO);
  }
  moved(flight, bytes);
  counters_.moved(write, flight.piece.path).add(bytes);
  if (flight.done == flight.limit) return go_on(flight);
  continue_short(flight);
}

void Dispatcher::continue_short(Flight& flight) {
  if (flight.operation->cancelled()) return stop(flight);
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

void Dispatcher::on_error(Flight& flight, int errno_value) {
  if (flight.operation->cancelled()) return stop(flight);
  if (is_worth_a_retry(errno_value)) return retry_or_fail(flight, errno_value);
  if (isolate(flight)) return;
  fail_part(flight, sys::os_error(errno_value, describe(flight, flight.operation->writes())));
}

void Dispatcher::retry_or_fail(Flight& flight, int errno_value) {
  if (flight.operation->cancelled()) return stop(flight);
  if (retry(flight, kMaxRetries)) return;
  fail_part(flight, error(Code::io_error, cat(describe(flight, flight.operation->writes()),
                                              " moved nothing in ", kMaxRetries + 1, " tries"))
                        .because(sys::os_error(errno_value, "the last try")));
}

// The engine said that all is well, and moved no byte.
void Dispatcher::on_nothing(Flight& flight) {
  if (flight.operation->cancelled()) return stop(flight);
  if (flight.operation->writes()) return retry_or_fail(flight, EIO);
  const Result<std::uint64_t> size = flight.file().size();
  if (!size.ok()) return fail_part(flight, size.status());
  if (*size > flight.file_offset()) return retry_or_fail(flight, EIO);
  flight.limit = flight.length;  // the file ends before all of it
  fail_part(flight,
            error(Code::out_of_range, cat(describe(flight, false), ", which ends at ", *size),
                  "the file was never that long, or was cut: write it before reading"));
}

}  // namespace towpath::backends::posix
