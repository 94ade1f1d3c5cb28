#include <algorithm>
#include <cerrno>
#include <cstring>

#include <towpath/backends/posix/dispatcher.h>
#include <towpath/core/format.h>

namespace towpath::backends::posix {
namespace {

/// Calls `visit(bytes of the part)` for what lies in [from, to) of all parts.
template <typename Visit>
void for_parts(const Flight& flight, std::uint64_t from, std::uint64_t to, const Visit& visit) {
  std::uint64_t at = 0;
  for (std::uint32_t i = 0; i < flight.piece.parts && at < to; ++i) {
    const sys::IoPart& part = flight.parts[i];
    const std::uint64_t end = at + part.size_bytes;
    if (end > from) {
      const std::uint64_t skip = from > at ? from - at : 0;
      visit(bytes_at(address_of(part.data) + skip, std::min(end, to) - at - skip));
    }
    at = end;
  }
}

}  // namespace

BounceWindow bounce_window(const Flight& flight) noexcept {
  const std::uint64_t unit = flight.file().alignment();
  const std::uint64_t skip = flight.file_offset() % unit;
  const std::uint64_t wanted = skip + flight.remaining();
  const std::uint64_t padded = wanted + (unit - wanted % unit) % unit;
  return {flight.file_offset() - skip, flight.bounce.first(padded), skip};
}

std::uint32_t select_parts(Flight& flight) noexcept {
  std::uint32_t count = 0;
  for_parts(flight, flight.done, flight.limit,
            [&](ByteSpan bytes) { flight.active[count++] = sys::IoPart::of(bytes); });
  return count;
}

void scatter(const Flight& flight, ConstByteSpan from) noexcept {
  const std::uint64_t to = std::min(flight.limit, flight.done + from.size());
  for_parts(flight, flight.done, to, [&](ByteSpan bytes) {
    std::memcpy(bytes.data(), from.data(), bytes.size());
    from = from.subspan(bytes.size());
  });
}

Dispatcher::Dispatcher(const Options& options, sys::FileEngine& engine, backend::Events& events,
                       Counters& counters)
    : PieceDispatcher(engine, events, counters),
      engine_(engine),
      limits_(options.limits),
      buffers_for_page_cache_(options.buffers_for_page_cache),
      counters_(counters),
      bounce_size_{options.bounce_buffers, options.limits.bounce_bytes},
      flights_(options.depth) {
  for (Flight& flight : flights_) add(flight);
}

Status Dispatcher::check(const backend::Segment& segment, bool write) const {
  const auto& local = static_cast<const backend::PieceMemory&>(*segment.local);
  const auto& remote = static_cast<const backend::PieceMemory&>(*segment.remote);
  if (!is_host_addressable(local.kind()) || remote.kind() != MemoryKind::disk)
    return error(Code::unsupported, cat("posix moves between host memory and disk, not between ",
                                        name_of(local.kind()), " and ", name_of(remote.kind())));
  const auto& disk = static_cast<const DiskMemory&>(remote);
  if (!disk.record().registered)
    return error(Code::not_found, cat(to_string(disk.record().region), " was deregistered"),
                 "keep the registration as long as its file is used");
  const OpenFile& file = disk.file();
  if (!file.allows(write)) return file.access_refusal(write);
  return {};
}

Dispatcher::Take Dispatcher::take(backend::PieceOperation& operation,
                                  backend::PieceFlight& flight) {
  Splitter& splitter = static_cast<PosixOperation&>(operation).splitter();
  auto& ours = static_cast<Flight&>(flight);
  ours.carry(splitter.next(ours.parts));
  const Piece& piece = ours.piece;
  // ext4's page cache is written by a thread of the kernel, one I/O of a file after the other.
  ours.can_linger = operation.writes() && piece.path == Path::buffered;
  if (operation.writes() && piece.path == Path::buffered && ours.file().refuses_unaligned()) {
    operation.progress().failed(piece.start, piece.length, ours.file().unaligned_refusal());
    return Take::settled;
  }
  if (read_cached(static_cast<PosixOperation&>(operation), ours)) return Take::copied;
  if (admit(ours, operation.writes())) return Take::ready;
  splitter.rewind(piece);
  return Take::waits;
}

// A read that is all of its transfer needs no engine where the page cache has its bytes. Those of a
// longer transfer go there, where they share a call. So does whatever is not answered in whole:
// what it lacks is reported there. True: its bytes are in place.
bool Dispatcher::read_cached(PosixOperation& operation, Flight& flight) {
  const Piece& piece = flight.piece;
  OpenFile& file = flight.file();
  if (operation.writes() || !operation.splitter().is_all(piece) || piece.path != Path::buffered ||
      buffers_for_page_cache_ || !file.reports_what_is_cached())
    return false;
  const std::int32_t got =
      engine_.read_cached({.file = file.engine_file(piece.path),
                           .offset = piece.file_offset,
                           .parts = std::span(flight.parts).first(piece.parts)});
  if (got == -EOPNOTSUPP) file.cannot_report_what_is_cached();
  if (got < 0 || static_cast<std::uint64_t>(got) != piece.length) return false;
  operation.progress().moved(piece.length);
  counters_.moved(false, piece.path).add(piece.length);
  counters_.cached_reads.add();
  return true;
}

Status Dispatcher::prepare_bounce() {
  if (bounce_.bytes().empty()) {
    TOWPATH_TRY(bounce_, device::BounceSlots::make(nullptr, bounce_size_));
  }
  return {};
}

// Whether the piece may go to the engine now; takes what it needs for that.
bool Dispatcher::admit(Flight& flight, bool write) {
  OpenFile& file = flight.file();
  if (flight.piece.path == Path::bounce) {
    flight.bounce = bounce_.take();
    return !flight.bounce.empty();
  }
  if (!write || !file.direct()) return true;
  if (flight.piece.path == Path::direct) {
    file.enter_direct_write();
    return true;
  }
  file.buffer_writes();
  return !file.has_direct_writes();
}

Status Dispatcher::hand_in(backend::PieceFlight& carrier) {
  auto& flight = static_cast<Flight&>(carrier);
  std::uint32_t count = 1;
  if (!flight.bounce.empty())
    flight.active[0] = sys::IoPart::of(bounce_window(flight).buffer);
  else
    count = select_parts(flight);
  const bool registered =
      count == 1 && (flight.piece.path == Path::direct ||
                     (flight.piece.path == Path::buffered && buffers_for_page_cache_));
  const int slot = registered ? flight.piece.local->slot_of(flight.active[0]) : sys::kNoSlot;
  engine_.submit(
      {.id = flight.id,
       .kind = flight.operation->writes() ? sys::FileIo::Kind::write : sys::FileIo::Kind::read,
       .buffered = flight.piece.path == Path::buffered,
       .file = flight.file().engine_file(flight.piece.path),
       .offset = flight.bounce.empty() ? flight.file_offset() : bounce_window(flight).offset,
       .parts = std::span(flight.active).first(count),
       .buffer_slot = slot});
  counters_.submissions.add();
  if (slot != sys::kNoSlot) counters_.registered_ios.add();
  return {};
}

void Dispatcher::let_go(backend::PieceFlight& carrier) {
  auto& flight = static_cast<Flight&>(carrier);
  if (!flight.bounce.empty()) bounce_.give_back(std::exchange(flight.bounce, {}));
  if (flight.operation->writes() && flight.piece.path == Path::direct)
    flight.file().leave_direct_write();
}

}  // namespace towpath::backends::posix
