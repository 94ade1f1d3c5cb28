#include <bit>

#include <unistd.h>

#include <towpath/sys/io_ring.h>

namespace towpath::sys::internal {
namespace {

// Room for an I/O and a few cancellations of each before completions are read.
constexpr unsigned kCompletionsPerIo = 4;
constexpr unsigned kMostCompletions = 65536;

}  // namespace

Result<Ring> open_for_depth(std::uint32_t depth, RingOptions options) {
  options.entries = std::bit_ceil(depth);
  options.completion_entries = std::min(options.entries * kCompletionsPerIo, kMostCompletions);
  return Ring::open(options);
}

void clear_event(int event_fd) noexcept {
  std::uint64_t count = 0;
  // Nothing to read is as good: the descriptor does not block.
  (void)!::read(event_fd, &count, sizeof count);
}

bool raise_event(int event_fd) noexcept {
  const std::uint64_t one = 1;
  return ::write(event_fd, &one, sizeof one) == sizeof one;
}

}  // namespace towpath::sys::internal
