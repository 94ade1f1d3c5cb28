#include <algorithm>
#include <cerrno>

#include <towpath/backends/shm/process_copy.h>
#include <towpath/core/text.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/process.h>

namespace towpath::backends::shm {

using backend::SegmentCursor;
using backend::SliceTask;

Result<bool> ProcessCopy::move(pid_t pid, SliceTask& task, std::uint64_t& budget) {
  const backend::Memory* const remote = task.at().segment().remote;
  std::size_t count = 0;
  std::uint64_t asked = 0;
  for (SegmentCursor ahead = task.at();
       budget > 0 && count < IOV_MAX && !ahead.done() && ahead.segment().remote == remote;
       ++count) {
    const std::uint64_t length = std::min(ahead.left(), budget);
    here_[count] = {bytes_at(ahead.local_address(), 0).data(), length};
    asked += length;
    there_[count] = {bytes_at(ahead.remote_address(), 0).data(), length};
    budget -= std::min(budget, std::max(length, backend::kPieceCost));
    ahead.advance(length);
  }
  budget = 0;  // one batch per call
  const bool pulls = task.request().op == TransferOp::read;
  const auto call = pulls ? ::process_vm_readv : ::process_vm_writev;
  const ssize_t moved = call(pid, here_.data(), count, there_.data(), count, 0);
  if (moved >= 0) {
    for (auto left = static_cast<std::uint64_t>(moved); left > 0;) {
      const std::uint64_t part = std::min(left, task.at().left());
      task.moved(part);
      left -= part;
    }
    const bool all = static_cast<std::uint64_t>(moved) == asked;
    if (moved > 0) return all;  // what stopped the kernel is the first byte of the next call
  }
  const int reason = moved < 0 ? errno : EIO;
  if (reason == EINTR || reason == EAGAIN) return false;
  const std::string what = cat("process_vm_", pulls ? "readv" : "writev", " of process ", pid);
  if (reason == ESRCH) return error(Code::peer_lost, cat(what, ": it does not exist any more"));
  if (reason != EFAULT && reason != EIO) return sys::os_error(reason, what);
  task.fail_stretch(
      error(Code::out_of_range, cat(what, ": not mapped at ", hex(task.at().remote_address()),
                                    " there or ", hex(task.at().local_address()), " here")));
  return false;
}

Status try_process_memory(pid_t pid, std::uint64_t address, std::uint64_t length) {
  constexpr std::uint64_t kPage =
      4096;  // the smallest there is: what holds for a byte, holds for it
  char ends[2];
  const std::array local = {sys::IoPart{&ends[0], 1}, sys::IoPart{&ends[1], 1}};
  const std::uint64_t last = address + length - 1;
  const std::array remote = {sys::RemotePart{address, 1}, sys::RemotePart{last, 1}};
  const std::size_t count = address / kPage == last / kPage ? 1 : 2;
  return sys::read_process_memory(pid, std::span(local).first(count),
                                  std::span(remote).first(count))
      .status();
}

}  // namespace towpath::backends::shm
