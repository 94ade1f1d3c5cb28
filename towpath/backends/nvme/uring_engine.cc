#include <algorithm>
#include <array>
#include <bit>

#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <towpath/backends/nvme/uring_engine.h>

namespace towpath::backends::nvme {
namespace {

// Room for a command and a few cancellations of each before completions are read.
constexpr unsigned kCompletionsPerIo = 4;
constexpr unsigned kMaxCompletions = 65536;

}  // namespace

Result<std::unique_ptr<Engine>> UringEngine::open(std::uint32_t depth) {
  const unsigned entries = std::bit_ceil(depth);
  TOWPATH_TRY(
      sys::Ring ring,
      sys::Ring::open({.entries = entries,
                       .completion_entries = std::min(entries * kCompletionsPerIo, kMaxCompletions),
                       .sqe128 = true,
                       .cqe32 = true}));
  TOWPATH_TRY(const int event_fd, ring.event_fd());
  return std::unique_ptr<Engine>(new UringEngine(std::move(ring), event_fd, depth));
}

UringEngine::UringEngine(sys::Ring ring, int event_fd, std::uint32_t depth)
    : ring_(std::move(ring)), event_fd_(event_fd) {
  backlog_.reserve(depth);
}

Status UringEngine::prepare(const Io& io) {
  sys::RingCommand command{.file = {io.target->fd(), false}, .operation = NVME_URING_CMD_IO};
  std::ranges::copy(io.command.bytes, command.area.begin());
  return ring_.command(io.id, command);
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
  // Refused only when the kernel is short of memory; then the command ends by itself.
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

}  // namespace towpath::backends::nvme
