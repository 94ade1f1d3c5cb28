#include <algorithm>
#include <array>
#include <bit>

#include <unistd.h>

#include <towpath/backends/posix/uring_engine.h>
#include <towpath/core/check.h>
#include <towpath/core/text.h>

namespace towpath::backends::posix {
namespace {

// Places in the tables. Empty ones cost 8 or 16 bytes of kernel memory each.
constexpr unsigned kFiles = 1024;
constexpr unsigned kBuffers = 1024;
// Room for an I/O and a few cancellations of each before completions are read.
constexpr unsigned kCompletionsPerIo = 4;
constexpr unsigned kMaxCompletions = 65536;

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

}  // namespace

Result<std::unique_ptr<UringEngine>> UringEngine::open(std::uint32_t depth) {
  const unsigned entries = std::bit_ceil(depth);
  TOWPATH_TRY(sys::Ring ring, sys::Ring::open({.entries = entries,
                                               .completion_entries = std::min(
                                                   entries * kCompletionsPerIo, kMaxCompletions)}));
  TOWPATH_TRY(const int event_fd, ring.event_fd());
  return std::unique_ptr<UringEngine>(new UringEngine(std::move(ring), event_fd, depth));
}

UringEngine::UringEngine(sys::Ring ring, int event_fd, std::uint32_t depth)
    : ring_(std::move(ring)), event_fd_(event_fd) {
  files_.refusal = ring_.reserve_files(kFiles);
  if (files_.refusal.ok()) files_.free = all_places(kFiles);
  buffers_.refusal = ring_.reserve_buffers(kBuffers);
  if (buffers_.refusal.ok()) buffers_.free = all_places(kBuffers);
  backlog_.reserve(depth);
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
  if (Status set = ring_.set_file(static_cast<unsigned>(slot), fd); !set.ok()) {
    files_.free.push_back(slot);
    return set;
  }
  return slot;
}

void UringEngine::remove_file(int slot) {
  // A place that cannot be cleared is not used again.
  if (ring_.set_file(static_cast<unsigned>(slot), -1).ok()) files_.free.push_back(slot);
}

Result<int> UringEngine::add_buffer(ByteSpan memory) {
  TOWPATH_TRY(const int slot, buffers_.take("buffers"));
  if (Status set = ring_.set_buffer(static_cast<unsigned>(slot), memory); !set.ok()) {
    buffers_.free.push_back(slot);
    return set;
  }
  return slot;
}

void UringEngine::remove_buffer(int slot) {
  if (ring_.set_buffer(static_cast<unsigned>(slot), {}).ok()) buffers_.free.push_back(slot);
}

Status UringEngine::prepare(const Io& io) {
  const sys::RingFile file = ring_file(io.file);
  if (io.parts.size() > 1) {
    const sys::RingVector request{.file = file, .parts = io.parts, .offset = io.offset};
    return io.write ? ring_.write_vector(io.id, request) : ring_.read_vector(io.id, request);
  }
  const ByteSpan bytes = bytes_of(io.parts.front());
  if (io.write)
    return ring_.write(
        io.id, {.file = file, .from = bytes, .offset = io.offset, .buffer = io.buffer_slot});
  return ring_.read(io.id,
                    {.file = file, .into = bytes, .offset = io.offset, .buffer = io.buffer_slot});
}

void UringEngine::submit(const Io& io) {
  if (!backlog_.empty() || !prepare(io).ok()) backlog_.push_back(io);
}

bool UringEngine::flush() {
  if (!ring_.submit().ok()) return false;
  if (backlog_.empty()) return true;
  const auto refused = std::find_if(backlog_.begin(), backlog_.end(),
                                    [this](const Io& io) { return !prepare(io).ok(); });
  backlog_.erase(backlog_.begin(), refused);
  return ring_.submit().ok() && backlog_.empty();
}

void UringEngine::cancel(std::uint64_t id) {
  // Refused only when the kernel is short of memory; then the I/O ends by itself.
  (void)ring_.cancel(id);
}

std::size_t UringEngine::reap(std::span<Done> into) {
  std::array<sys::Completion, 64> batch;
  const std::size_t count = ring_.poll(std::span(batch).first(std::min(into.size(), batch.size())));
  for (std::size_t i = 0; i < count; ++i) into[i] = {batch[i].id, batch[i].result};
  return count;
}

void UringEngine::clear_wait_fd() {
  std::uint64_t count = 0;
  // Nothing to read is as good: the descriptor does not block.
  (void)!::read(event_fd_, &count, sizeof count);
}

}  // namespace towpath::backends::posix
