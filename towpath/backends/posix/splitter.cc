#include <algorithm>

#include <towpath/backends/posix/splitter.h>

namespace towpath::backends::posix {
namespace {

DiskMemory& disk_of(const backend::Segment& segment) noexcept {
  return *static_cast<DiskMemory*>(segment.remote);
}

LocalMemory& local_of(const backend::Segment& segment) noexcept {
  return *static_cast<LocalMemory*>(segment.local);
}

sys::IoPart part_at(std::uint64_t address, std::uint64_t length) noexcept {
  return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), length};
}

}  // namespace

void Splitter::start(Segments segments, bool write, const Limits& limits) noexcept {
  segments_ = segments;
  write_ = write;
  limits_ = limits;
  at_ = first_ = first_byte(segments_, {});
}

Splitter::Rule Splitter::bounce_rule(const Extent& first, std::uint64_t alignment) const noexcept {
  const std::uint64_t into_block = first.remote_address % alignment;
  Rule rule{.room = limits_.bounce_bytes - into_block};
  // Memory and file reach a block border together: what follows it can go straight.
  if (into_block != 0 && first.local_address % alignment == into_block)
    rule.room = alignment - into_block;
  return rule;
}

Piece Splitter::next(std::span<sys::IoPart> parts) noexcept {
  const backend::Segment& segment = segments_[at_.segment];
  const Extent first = extent_at(segments_, at_);
  Piece piece{.start = at_,
              .disk = &disk_of(segment),
              .local = &local_of(segment),
              .file_offset = first.remote_address};
  const OpenFile& file = piece.disk->file();
  const bool direct = file.direct() && !(write_ && file.writes_buffered());
  if (direct && first.remote_address % file.alignment() == 0) {
    piece.path = Path::direct;
    const Rule straight{
        .room = limits_.chunk_bytes, .alignment = file.alignment(), .gather = false};
    if (take(piece, parts, straight) != 0) return piece;
  }
  piece.path = direct && !write_ ? Path::bounce : Path::buffered;
  take(piece, parts,
       piece.path == Path::bounce ? bounce_rule(first, file.alignment())
                                  : Rule{.room = limits_.chunk_bytes, .gather = false});
  return piece;
}

Splitter::Join Splitter::join(const Piece& piece, std::span<const sys::IoPart> parts,
                              const Extent& next, const Rule& rule) const noexcept {
  if (piece.parts == 0) return Join::append;
  const backend::Segment& segment = segments_[at_.segment];
  if (&disk_of(segment).file() != &piece.disk->file() ||
      next.remote_address != piece.file_offset + piece.length)
    return Join::no;
  const sys::IoPart& last = parts[piece.parts - 1];
  if (address_of(last.data) + last.size_bytes == next.local_address &&
      &local_of(segment) == piece.local)
    return Join::extend;
  const bool small = last.size_bytes < limits_.vector_below && next.length < limits_.vector_below;
  return piece.parts < parts.size() && (small || rule.gather) ? Join::append : Join::no;
}

// Moves at_ behind what it takes.
std::uint64_t Splitter::take(Piece& piece, std::span<sys::IoPart> parts,
                             const Rule& rule) noexcept {
  while (!done() && piece.length < rule.room) {
    const Extent next = extent_at(segments_, at_);
    std::uint64_t bytes = std::min(next.length, rule.room - piece.length);
    if (next.local_address % rule.alignment != 0) break;
    bytes -= bytes % rule.alignment;
    const Join how = bytes == 0 ? Join::no : join(piece, parts, next, rule);
    if (how == Join::no) break;
    if (how == Join::extend)
      parts[piece.parts - 1].size_bytes += bytes;
    else
      parts[piece.parts++] = part_at(next.local_address, bytes);
    piece.length += bytes;
    at_ = advance(segments_, at_, bytes);
    if (bytes < next.length) break;
  }
  return piece.length;
}

}  // namespace towpath::backends::posix
