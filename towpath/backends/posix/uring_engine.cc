#include <towpath/backends/posix/uring_engine.h>
#include <towpath/core/text.h>

namespace towpath::backends::posix {
namespace {

// Places in the tables. Empty ones cost 8 or 16 bytes of kernel memory each.
constexpr unsigned kFiles = 1024;
constexpr unsigned kBuffers = 1024;

std::vector<int> all_places(unsigned count) {
  std::vector<int> places(count);
  for (unsigned i = 0; i < count; ++i) places[i] = static_cast<int>(count - 1 - i);
  return places;
}

sys::RingFile ring_file(const EngineFile& file) noexcept {
  return file.slot == kNoSlot ? sys::RingFile{file.fd, false} : sys::RingFile{file.slot, true};
}

ByteSpan bytes_of(const sys::IoPart& part) noexcept {
  return {static_cast<std::byte*>(part.data), part.size_bytes};
}

Status prepare(sys::Ring& ring, const Io& io) {
  const sys::RingFile file = ring_file(io.file);
  if (io.parts.size() > 1) {
    const sys::RingVector request{.file = file, .parts = io.parts, .offset = io.offset};
    return io.write ? ring.write_vector(io.id, request) : ring.read_vector(io.id, request);
  }
  const ByteSpan bytes = bytes_of(io.parts.front());
  if (io.write)
    return ring.write(io.id,
                      {.file = file, .from = bytes, .offset = io.offset, .buffer = io.buffer_slot});
  return ring.read(io.id,
                   {.file = file, .into = bytes, .offset = io.offset, .buffer = io.buffer_slot});
}

}  // namespace

Result<std::unique_ptr<UringEngine>> UringEngine::open(std::uint32_t depth) {
  TOWPATH_TRY(auto ring, sys::IoRing<Io>::open(depth, prepare));
  return std::unique_ptr<UringEngine>(new UringEngine(std::move(ring)));
}

UringEngine::UringEngine(sys::IoRing<Io> ring) : ring_(std::move(ring)) {
  files_.refusal = ring_.ring().reserve_files(kFiles);
  if (files_.refusal.ok()) files_.free = all_places(kFiles);
  buffers_.refusal = ring_.ring().reserve_buffers(kBuffers);
  if (buffers_.refusal.ok()) buffers_.free = all_places(kBuffers);
}

Result<int> UringEngine::Table::take(const char* what) {
  if (!refusal.ok()) return refusal;
  if (free.empty())
    return error(Code::exhausted, cat("no place is free in the ring's table of ", what));
  const int place = free.back();
  free.pop_back();
  return place;
}

Result<int> UringEngine::add_file(int fd) {
  TOWPATH_TRY(const int slot, files_.take("files"));
  if (Status set = ring_.ring().set_file(static_cast<unsigned>(slot), fd); !set.ok()) {
    files_.free.push_back(slot);
    return set;
  }
  return slot;
}

void UringEngine::remove_file(int slot) {
  // A place that cannot be cleared is not used again.
  if (ring_.ring().set_file(static_cast<unsigned>(slot), -1).ok()) files_.free.push_back(slot);
}

Result<int> UringEngine::add_buffer(ByteSpan memory) {
  TOWPATH_TRY(const int slot, buffers_.take("buffers"));
  if (Status set = ring_.ring().set_buffer(static_cast<unsigned>(slot), memory); !set.ok()) {
    buffers_.free.push_back(slot);
    return set;
  }
  return slot;
}

void UringEngine::remove_buffer(int slot) {
  if (ring_.ring().set_buffer(static_cast<unsigned>(slot), {}).ok()) buffers_.free.push_back(slot);
}

}  // namespace towpath::backends::posix
