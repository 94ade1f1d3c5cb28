#include <algorithm>
#include <cerrno>

#include <towpath/backends/gds/dispatcher.h>

namespace towpath::backends::gds {
namespace {

// Without a byte of progress. More than any signal storm; few enough to end soon.
constexpr std::uint32_t kMaxRetries = 64;

const FileMemory& file_of(const backend::Segment& segment) noexcept {
  return *static_cast<const FileMemory*>(segment.remote);
}

std::string described(const Flight& flight) {
  return cat(flight.operation->writes() ? "the write of " : "the read of ", flight.remaining(),
             " bytes at offset ", flight.file_offset + flight.done, " of ", flight.file->name());
}

}  // namespace

Dispatcher::Dispatcher(const Options& options, const CuFile& cufile, Engine& engine,
                       backend::Events& events, Counters& counters)
    : PieceDispatcher(engine, events, counters),
      options_(options),
      cufile_(cufile),
      engine_(engine),
      counters_(counters),
      flights_(options.depth) {
  for (Flight& flight : flights_) add(flight);
}

Status Dispatcher::check(const backend::Segment& segment, bool write) const {
  const MemoryKind here = static_cast<const backend::PieceMemory*>(segment.local)->kind();
  const MemoryKind there = static_cast<const backend::PieceMemory*>(segment.remote)->kind();
  if (here != MemoryKind::device || there != MemoryKind::disk)
    return error(Code::unsupported, cat("gds moves between device memory and disk, not between ",
                                        name_of(here), " and ", name_of(there)));
  const FileRecord& record = file_of(segment).record();
  if (!record.registered)
    return error(Code::not_found, cat(to_string(record.region), " was deregistered"),
                 "keep the registration as long as its file is used");
  if (record.file->allows(write)) return {};
  return error(Code::denied,
               cat(record.file->name(), " is open for ", write ? "reading" : "writing", " only"),
               "open it O_RDWR before its region is registered");
}

/// From where the operation is, as far as memory and file go on together.
Dispatcher::Take Dispatcher::take(backend::PieceOperation& operation,
                                  backend::PieceFlight& carrier) {
  auto& flight = static_cast<Flight&>(carrier);
  backend::Position& at = static_cast<GdsOperation&>(operation).at;
  const backend::Segments segments = operation.segments();
  const backend::Segment& first = segments[at.segment];
  const backend::Extent begin = extent_at(segments, at);
  flight.start = at;
  flight.length = 0;
  flight.memory = static_cast<const DeviceMemory*>(first.local);
  flight.file = &file_of(first).file();
  flight.memory_offset = begin.local_address - flight.memory->address();
  flight.file_offset = begin.remote_address;
  while (at.segment < segments.size() && flight.length < options_.chunk_bytes) {
    const backend::Segment& segment = segments[at.segment];
    const backend::Extent next = extent_at(segments, at);
    const bool goes_on = segment.local == first.local && &file_of(segment).file() == flight.file &&
                         next.local_address == begin.local_address + flight.length &&
                         next.remote_address == begin.remote_address + flight.length;
    if (!goes_on) break;
    const std::uint64_t bytes = std::min(next.length, options_.chunk_bytes - flight.length);
    flight.length += bytes;
    at = advance(segments, at, bytes);
  }
  return Take::ready;
}

Status Dispatcher::hand_in(backend::PieceFlight& carrier) {
  const auto& flight = static_cast<const Flight&>(carrier);
  return engine_.submit({.id = flight.id,
                         .write = flight.operation->writes(),
                         .file = flight.file,
                         .memory = flight.memory,
                         .memory_offset = flight.memory_offset + flight.done,
                         .file_offset = flight.file_offset + flight.done,
                         .length = flight.remaining()});
}

void Dispatcher::settle(backend::PieceFlight& carrier, std::int32_t result) {
  auto& flight = static_cast<Flight&>(carrier);
  if (result < 0) return on_error(flight, result);
  const auto bytes = static_cast<std::uint64_t>(result);
  if (bytes > flight.remaining())
    return fail_part(
        flight, error(Code::internal, cat(described(flight), " is said to have moved ", bytes)));
  bytes == 0 ? on_nothing(flight) : on_moved(flight, bytes);
}

void Dispatcher::on_moved(Flight& flight, std::uint64_t bytes) {
  moved(flight, bytes);
  counters_.moved(flight.operation->writes()).add(bytes);
  if (flight.done == flight.limit) return go_on(flight);
  if (flight.operation->cancelled()) return stop(flight);
  counters_.short_continuations.add();
  submit(flight);
}

// All is well, it says, and no byte moved: of a read, the file has ended.
void Dispatcher::on_nothing(Flight& flight) {
  if (flight.operation->cancelled()) return stop(flight);
  if (flight.operation->writes()) return on_error(flight, -EIO);
  flight.limit = flight.length;  // it ends before all of it
  counters_.failures.add();
  fail_part(flight, error(Code::out_of_range, cat(described(flight), ": the file ends before"),
                          "the file was never that long, or was cut: write it before reading"));
}

void Dispatcher::on_error(Flight& flight, std::int32_t result) {
  if (flight.operation->cancelled()) return stop(flight);
  const bool may_pass = result == -EINTR || result == -EAGAIN || result == -ECANCELED;
  if (may_pass && retry(flight, kMaxRetries)) return;
  if (isolate(flight)) return;
  counters_.failures.add();
  fail_part(flight, cufile_.failure_of(result, described(flight)));
}

}  // namespace towpath::backends::gds
