#include <towpath/core/format.h>
#include <towpath/sys/uring_file_engine.h>

namespace towpath::sys {
namespace {

// Places in the tables. Empty ones cost 8 or 16 bytes of kernel memory each.
constexpr unsigned kFiles = 1024;
constexpr unsigned kBuffers = 1024;

std::vector<int> all_places(unsigned count) {
  std::vector<int> places(count);
  for (unsigned i = 0; i < count; ++i) places[i] = static_cast<int>(count - 1 - i);
  return places;
}

RingFile ring_file(const EngineFile& file) noexcept {
  return file.slot == kNoSlot ? RingFile{file.fd, false} : RingFile{file.slot, true};
}

ByteSpan bytes_of(const IoPart& part) noexcept {
  return {static_cast<std::byte*>(part.data), part.size_bytes};
}

Status prepare(Ring& ring, const FileIo& io) {
  const RingFile file = ring_file(io.file);
  if (io.kind == FileIo::Kind::sync) return ring.sync(io.id, file);
  const bool writes = io.kind == FileIo::Kind::write;
  if (io.parts.size() > 1) {
    const RingVector request{.file = file, .parts = io.parts, .offset = io.offset};
    return writes ? ring.write_vector(io.id, request) : ring.read_vector(io.id, request);
  }
  const ByteSpan bytes = bytes_of(io.parts.front());
  if (writes)
    return ring.write(io.id,
                      {.file = file, .from = bytes, .offset = io.offset, .buffer = io.buffer_slot});
  return ring.read(io.id,
                   {.file = file, .into = bytes, .offset = io.offset, .buffer = io.buffer_slot});
}

}  // namespace

Result<std::unique_ptr<UringFileEngine>> UringFileEngine::open(std::uint32_t depth) {
  TOWPATH_TRY(auto ring, IoRing<FileIo>::open(depth, prepare));
  TOWPATH_TRY(auto writes, IoRing<FileIo>::open(depth, prepare,
                                                {.interrupts = false, .event_fd = ring.wait_fd()}));
  return std::unique_ptr<UringFileEngine>(new UringFileEngine(std::move(ring), std::move(writes)));
}

UringFileEngine::UringFileEngine(IoRing<FileIo> ring, IoRing<FileIo> writes)
    : ring_(std::move(ring)), writes_(std::move(writes)) {
  files_.refusal = ring_.ring().reserve_files(kFiles);
  if (files_.refusal.ok()) files_.refusal = writes_.ring().reserve_files(kFiles);
  if (files_.refusal.ok()) files_.free = all_places(kFiles);
  buffers_.refusal = ring_.ring().reserve_buffers(kBuffers);
  if (buffers_.refusal.ok()) buffers_.free = all_places(kBuffers);
}

// Buffers are known to the one ring only: what uses them goes there.
void UringFileEngine::submit(const FileIo& io) {
  const bool by_thread =
      io.kind == FileIo::Kind::sync ||
      (io.kind == FileIo::Kind::write && io.buffered && io.buffer_slot == kNoSlot);
  (by_thread ? writes_ : ring_).submit(io);
}

bool UringFileEngine::flush() {
  const bool flushed = ring_.flush();
  return writes_.flush() && flushed;
}

void UringFileEngine::cancel(std::uint64_t id) {
  for (IoRing<FileIo>* ring : {&ring_, &writes_}) {
    if (ring->ring().in_flight() > 0) ring->cancel(id);
  }
}

// In turns: one that fills `into` each time does not keep from it what the other has.
std::size_t UringFileEngine::reap(std::span<IoDone> into) {
  writes_first_ = !writes_first_;
  const std::size_t count = (writes_first_ ? writes_ : ring_).reap(into);
  return count + (writes_first_ ? ring_ : writes_).reap(into.subspan(count));
}

Result<int> UringFileEngine::Table::take(const char* what) {
  if (!refusal.ok()) return refusal;
  if (free.empty())
    return error(Code::exhausted, cat("no place is free in the ring's table of ", what));
  const int place = free.back();
  free.pop_back();
  return place;
}

Result<int> UringFileEngine::add_file(int fd) {
  TOWPATH_TRY(const int slot, files_.take("files"));
  if (Status set = set_file(slot, fd); !set.ok()) {
    remove_file(slot);
    return set;
  }
  return slot;
}

void UringFileEngine::remove_file(int slot) {
  // A place that cannot be cleared is not used again.
  if (set_file(slot, -1).ok()) files_.free.push_back(slot);
}

Status UringFileEngine::set_file(int slot, int fd) {
  Status set = ring_.ring().set_file(static_cast<unsigned>(slot), fd);
  Status other = writes_.ring().set_file(static_cast<unsigned>(slot), fd);
  return set.ok() ? other : set;
}

Result<int> UringFileEngine::add_buffer(ByteSpan memory) {
  TOWPATH_TRY(const int slot, buffers_.take("buffers"));
  if (Status set = ring_.ring().set_buffer(static_cast<unsigned>(slot), memory); !set.ok()) {
    buffers_.free.push_back(slot);
    return set;
  }
  return slot;
}

void UringFileEngine::remove_buffer(int slot) {
  if (ring_.ring().set_buffer(static_cast<unsigned>(slot), {}).ok()) buffers_.free.push_back(slot);
}

}  // namespace towpath::sys
