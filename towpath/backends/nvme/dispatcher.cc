#include <algorithm>

#include <towpath/backends/nvme/dispatcher.h>
#include <towpath/backends/nvme/memories.h>
#include <towpath/core/check.h>
#include <towpath/core/text.h>

namespace towpath::backends::nvme {
namespace {

bool overlap(const Blocks& a, const Blocks& b) noexcept {
  return a.lba < b.lba + b.count && b.lba < a.lba + a.count;
}

}  // namespace

Dispatcher::Dispatcher(const Options& options, sys::Mapping windows, Engine& engine,
                       backend::Events& events, Counters& counters)
    : PieceDispatcher(engine, events, counters),
      options_(options),
      windows_(std::move(windows)),
      engine_(engine),
      counters_(counters),
      flights_(options.depth) {
  TOWPATH_CHECK(windows_.size() >= options.depth * kWindowBytes, "a flight without a window");
  for (std::size_t i = 0; i < flights_.size(); ++i) {
    flights_[i].window = windows_.bytes().subspan(i * kWindowBytes, kWindowBytes);
    add(flights_[i]);
  }
}

Status Dispatcher::check(const backend::Segment& segment, bool write) const {
  const auto& local = static_cast<const backend::PieceMemory&>(*segment.local);
  const auto& remote = static_cast<const backend::PieceMemory&>(*segment.remote);
  if (!is_host_addressable(local.kind()) || remote.kind() != MemoryKind::block)
    return error(Code::unsupported,
                 cat("nvme moves between mapped memory and namespaces, not between ",
                     name_of(local.kind()), " and ", name_of(remote.kind())));
  const auto& device = static_cast<const BlockMemory&>(remote);
  if (!device.record().registered)
    return error(Code::not_found, cat(to_string(device.record().region), " was deregistered"),
                 "keep the registration as long as the namespace is used");
  if (write && !device.writable())
    return error(
        Code::denied, cat(device.info().path, " may not be written to"),
        "say so if what is on it may be lost: BlockAccess::read_write, or the key rw:PATH");
  return {};
}

Dispatcher::Take Dispatcher::take(backend::PieceOperation& operation,
                                  backend::PieceFlight& flight) {
  Splitter& splitter = static_cast<NvmeOperation&>(operation).splitter();
  auto& ours = static_cast<Flight&>(flight);
  ours.carry(splitter.next());
  const Piece& piece = ours.piece;
  ours.blocks = blocks_of(operation.segments(), piece.start, piece.length, ours.info().block_bytes);
  if (!operation.writes() || !must_wait(ours)) return Take::ready;
  splitter.rewind(piece);
  return Take::waits;
}

// Whether a write that is under way changes the same block, or would be undone by this one.
bool Dispatcher::must_wait(const Flight& flight) const noexcept {
  return std::ranges::any_of(flights_, [&](const Flight& other) {
    return other.operation != nullptr && other.operation->writes() &&
           (other.piece.path == Path::modify || flight.piece.path == Path::modify) &&
           &other.piece.device->target() == &flight.piece.device->target() &&
           overlap(other.blocks, flight.blocks);
  });
}

}  // namespace towpath::backends::nvme
