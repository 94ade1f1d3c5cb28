#include <algorithm>
#include <array>
#include <cerrno>

#include <towpath/backends/shm/process_copy.h>
#include <towpath/core/format.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/process.h>

namespace towpath::backends::shm {

using backend::SegmentCursor;
using backend::SliceTask;

namespace {

// So many make a slice. With more threads more of them are copied in no more than that takes.
constexpr std::size_t kPartsOfSlice = 2;
constexpr std::uint64_t kPartBytes = backend::kSliceBytes / kPartsOfSlice;

Status is_another_program(const PeerProgram& program) {
  return error(Code::peer_lost, cat("process ", program.pid,
                                    " runs another program now (exec), or has closed its backend"));
}

}  // namespace

/// What one thread copies in one call. The first extent is the token, where it is read with them.
struct ProcessCopy::Part {
  static constexpr std::size_t kMost = IOV_MAX - 1;

  /// From `ahead` on, which it moves on, as long as it lies in `remote`.
  void gather(SegmentCursor& ahead, const backend::Memory* remote, std::uint64_t budget) {
    count = 0;
    asked = 0;
    while (budget > 0 && count < kMost && !ahead.done() && ahead.segment().remote == remote) {
      const std::uint64_t length = std::min(ahead.left(), budget);
      ++count;
      here[count] = {bytes_at(ahead.local_address(), 0).data(), length};
      there[count] = {bytes_at(ahead.remote_address(), 0).data(), length};
      asked += length;
      budget -= std::min(budget, std::max(length, backend::kPieceCost));
      ahead.advance(length);
    }
  }
  bool is_full() const noexcept { return asked >= kPartBytes || count == kMost; }
  void copy(const PeerProgram& from, bool pulls) {
    const bool asks = pulls && from.token_address != 0;
    const std::size_t first = asks ? 0 : 1;
    token = {};
    here[0] = {&token, sizeof token};
    there[0] = {bytes_at(from.token_address, 0).data(), sizeof token};
    const auto call = pulls ? ::process_vm_readv : ::process_vm_writev;
    const ssize_t took = call(from.pid, here.data() + first, count + 1 - first,
                              there.data() + first, count + 1 - first, 0);
    const std::uint64_t came = took < 0 ? 0 : static_cast<std::uint64_t>(took);
    is_anothers = asks && took > 0 && token != from.token;
    const std::uint64_t before = asks ? sizeof token : 0;
    moved = is_anothers || came < before ? 0 : came - before;
    // What stops the kernel after some bytes is the first byte of the next call.
    reason = took < 0 ? errno : moved == 0 ? EIO : 0;
  }

  std::array<iovec, IOV_MAX> here;
  std::array<iovec, IOV_MAX> there;
  SocketToken token{};
  bool is_anothers = false;  ///< the memory: the token was another one
  std::size_t count = 0;     ///< without the token
  std::uint64_t asked = 0;
  std::uint64_t moved = 0;
  int reason = 0;  ///< why nothing moved; 0: something did
};

ProcessCopy::ProcessCopy(const Clock& clock, std::size_t threads)
    : clock_(clock), pool_("towpath-copy", threads - 1) {
  for (std::size_t i = 0; i < threads; ++i) parts_.push_back(std::make_unique<Part>());
}
ProcessCopy::~ProcessCopy() = default;

std::size_t ProcessCopy::gather(const SliceTask& task) {
  const std::uint64_t budget = parts_.size() == 1 ? backend::kSliceBytes : kPartBytes;
  SegmentCursor ahead = task.at();
  const backend::Memory* const remote = ahead.segment().remote;
  std::size_t parts = 0;
  while (parts < parts_.size() && !ahead.done() && ahead.segment().remote == remote)
    parts_[parts++]->gather(ahead, remote, budget);
  return parts;
}

std::size_t ProcessCopy::copy(std::size_t parts, const PeerProgram& from, bool pulls) {
  const auto one = [&](std::size_t part) { parts_[part]->copy(from, pulls); };
  const auto all = [&] {
    for (std::size_t part = 0; part < parts; ++part) one(part);
    return parts;
  };
  if (parts < 2 || !parts_[1]->is_full()) return all();  // not worth to wake anybody
  if (shortage_.ok()) shortage_ = pool_.start();
  const std::size_t way = pool_.members() == 0 ? alone : way_.next();
  if (way == alone) parts = kPartsOfSlice;
  const Instant begin = clock_.now();
  // Where no other had woken up yet it says nothing of what help is worth.
  const std::size_t telling = way == alone ? all() : pool_.share(parts, one);
  std::uint64_t bytes = 0;
  for (std::size_t part = 0; part < parts; ++part) bytes += parts_[part]->moved;
  if (telling > 0) way_.note(way, clock_.now() - begin, bytes);
  return parts;
}

Result<bool> ProcessCopy::move(const PeerProgram& from, SliceTask& task, std::uint64_t& budget) {
  const std::size_t parts = copy(gather(task), from, task.request().op == TransferOp::read);
  budget = 0;  // one batch per call
  for (std::size_t i = 0; i < parts; ++i) {
    const Part& part = *parts_[i];
    TOWPATH_TRY(account(part, from, task));
    // The parts behind it were copied, too; they are copied again, from where it stopped on.
    if (part.moved < part.asked) return false;
  }
  return true;
}

Status ProcessCopy::account(const Part& part, const PeerProgram& from, SliceTask& task) {
  if (part.is_anothers) return is_another_program(from);
  for (std::uint64_t left = part.moved; left > 0;) {
    const std::uint64_t bytes = std::min(left, task.at().left());
    task.moved(bytes);
    left -= bytes;
  }
  if (part.reason == 0 || part.reason == EINTR || part.reason == EAGAIN) return {};
  const bool pulls = task.request().op == TransferOp::read;
  const std::string what = cat("process_vm_", pulls ? "readv" : "writev", " of process ", from.pid);
  if (part.reason == ESRCH)
    return error(Code::peer_lost, cat(what, ": it does not exist any more"));
  if (part.reason != EFAULT && part.reason != EIO) return sys::os_error(part.reason, what);
  TOWPATH_TRY(check_program(from));
  task.fail_extent(
      error(Code::out_of_range, cat(what, ": not mapped at ", hex(task.at().remote_address()),
                                    " there or ", hex(task.at().local_address()), " here")));
  return {};
}

Status check_program(const PeerProgram& program) {
  if (program.token_address == 0) return {};
  SocketToken token{};
  const sys::IoPart here{token.data(), sizeof token};
  const sys::RemotePart there{program.token_address, sizeof token};
  const Status read = sys::read_process_memory(program.pid, {&here, 1}, {&there, 1}).status();
  if (!read.ok() && read.code() != Code::out_of_range) return read;
  return read.ok() && token == program.token ? Status() : is_another_program(program);
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
