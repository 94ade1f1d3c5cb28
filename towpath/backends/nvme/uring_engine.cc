#include <algorithm>

#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>

#include <towpath/backends/nvme/uring_engine.h>

namespace towpath::backends::nvme {
namespace {

Status prepare(sys::Ring& ring, const Io& io) {
  sys::RingCommand command{.file = {io.target->fd(), false}, .operation = NVME_URING_CMD_IO};
  std::ranges::copy(io.command.bytes, command.area.begin());
  return ring.command(io.id, command);
}

}  // namespace

Result<std::unique_ptr<Engine>> UringEngine::open(std::uint32_t depth) {
  TOWPATH_TRY(auto ring, sys::IoRing<Io>::open(depth, prepare, {.sqe128 = true, .cqe32 = true}));
  return std::unique_ptr<Engine>(new UringEngine(std::move(ring)));
}

}  // namespace towpath::backends::nvme
