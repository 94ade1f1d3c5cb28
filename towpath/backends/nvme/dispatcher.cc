#include <algorithm>
#include <cstring>

#include <towpath/backends/nvme/dispatcher.h>
#include <towpath/backends/nvme/memories.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>

namespace towpath::backends::nvme {
namespace {

bool overlap(const Blocks& a, const Blocks& b) noexcept {
  return a.lba < b.lba + b.count && b.lba < a.lba + a.count;
}

}  // namespace

Blocks blocks_of(Segments segments, const Position& start, std::uint64_t bytes,
                 std::uint32_t block_bytes) noexcept {
  std::uint64_t first = UINT64_MAX;
  std::uint64_t last = 0;
  for_extents(segments, start, bytes, [&](const Extent& extent) {
    first = std::min(first, extent.remote_address / block_bytes);
    last = std::max(last, (extent.remote_address + extent.length - 1) / block_bytes);
  });
  return {first, last - first + 1};
}

void scatter(Segments segments, const Position& start, std::uint64_t bytes, ConstByteSpan window,
             std::uint64_t begin) noexcept {
  for_extents(segments, start, bytes, [&](const Extent& extent) {
    const ByteSpan into = bytes_at(extent.local_address, extent.length);
    std::memcpy(into.data(), window.subspan(extent.remote_address - begin).data(), into.size());
  });
}

void gather(Segments segments, const Position& start, std::uint64_t bytes, ByteSpan window,
            std::uint64_t begin) noexcept {
  for_extents(segments, start, bytes, [&](const Extent& extent) {
    const ByteSpan from = bytes_at(extent.local_address, extent.length);
    std::memcpy(window.subspan(extent.remote_address - begin).data(), from.data(), from.size());
  });
}

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
