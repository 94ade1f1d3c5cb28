// Ring: one io_uring, the kernel's queue of submissions and completions.
//
//   prepare (read, write, sync, command ...)   submit()            poll()
//   caller ------------------------------> [SQ] ------> kernel -----> [CQ] ------> {id, result}
//
// It is not a file and keeps no buffers: memory, files and iovec arrays that are handed in stay the
// caller's and must live until the completion with their id came back, or drain() returned.
// Invariants:
//   - Completions come in any order; each carries the id of its submission, exactly once.
//   - At most depth() operations are accepted and not yet polled, so the completion queue cannot
//     overflow; beyond that preparing fails with `exhausted`.
//   - When a Ring is gone, the kernel touches no byte on its behalf any more: the destructor
//     drains.
//   - A kernel thread that polls (SQPOLL) exists only when asked for: on a busy machine it costs
//     far more than it saves.
// Needs Linux 5.19 (cancelling all that is in flight). Sources: io_uring_setup(2),
// io_uring_enter(2). Thread: one at a time; moving is allowed when nobody uses it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/finding.h>
#include <towpath/core/result.h>
#include <towpath/sys/io_part.h>

namespace towpath::sys {

namespace internal {
struct RingState;
}

struct RingOptions {
  unsigned entries = 128;  ///< submissions that can be prepared before submit(); 1 to 32768
  unsigned completion_entries = 0;  ///< 0: twice `entries`; otherwise at least `entries`
  bool sqe128 = false;              ///< 128-byte submissions: NVMe commands need them
  bool cqe32 = false;               ///< 32-byte completions: Completion::extra is filled
  bool kernel_polls = false;        ///< SQPOLL
  /// False (COOP_TASKRUN): who submits is not interrupted for what the kernel has left to do on his
  /// behalf; it waits for his next system call or the clock's next tick. That is tidying up where
  /// threads of the kernel do the work, but the completion itself where a device does it.
  bool interrupts = true;
  /// Signalled in place of one of its own; another ring's, for one. Outlives the ring. -1: none.
  int event_fd = -1;
};

struct Completion {
  std::uint64_t id = 0;
  std::int32_t result = 0;               ///< bytes or another count; negative: an errno
  std::array<std::uint64_t, 2> extra{};  ///< only with cqe32
};

/// An open file, by descriptor or by its place among the registered files.
struct RingFile {
  int number = -1;
  bool registered = false;
};

struct RingRead {
  RingFile file;
  ByteSpan into;             ///< at most 4 GiB - 1
  std::uint64_t offset = 0;  ///< ignored for pipes and sockets
  int buffer = -1;           ///< index of the registered buffer that covers `into`; -1: none
};

struct RingWrite {
  RingFile file;
  ConstByteSpan from;
  std::uint64_t offset = 0;
  int buffer = -1;
};

/// The array must live until submit(), the bytes until the completion.
struct RingVector {
  RingFile file;
  std::span<const IoPart> parts;  ///< at most 1024
  std::uint64_t offset = 0;
};

/// IORING_OP_URING_CMD; needs sqe128. The file's driver defines what the area means.
struct RingCommand {
  RingFile file;
  std::uint32_t operation = 0;  ///< cmd_op
  std::array<std::byte, 80> area{};
  int buffer = -1;
};

struct RingWait {
  unsigned completions = 1;
  Duration timeout{};  ///< zero or less: only looks
};

class Ring {
 public:
  /// Errors: invalid_argument (options), denied (kernel.io_uring_disabled, seccomp), unsupported
  /// (no io_uring, or older than needed), exhausted.
  static Result<Ring> open(const RingOptions& options = {});

  Ring(Ring&&) noexcept;
  Ring& operator=(Ring&&) noexcept;
  /// Drains first; see drain().
  ~Ring();

  /// Operations that may be accepted and not yet polled at one time.
  unsigned depth() const noexcept;
  /// Operations accepted and not yet polled.
  unsigned in_flight() const noexcept;

  // Prepare one operation; the kernel sees it at submit(). Any id but UINT64_MAX, which is the
  // ring's own. Cost: no system call, no allocation.
  // Errors: exhausted (full: submit and poll, then try again), invalid_argument (id, length),
  // unsupported (command on a ring without sqe128).
  Status nop(std::uint64_t id);
  Status read(std::uint64_t id, const RingRead& request);
  Status write(std::uint64_t id, const RingWrite& request);
  Status read_vector(std::uint64_t id, const RingVector& request);
  Status write_vector(std::uint64_t id, const RingVector& request);
  /// Brings the file's bytes to the disk (fdatasync). Orders nothing: earlier writes that did not
  /// complete yet may be left out.
  Status sync(std::uint64_t id, RingFile file);
  Status command(std::uint64_t id, const RingCommand& request);

  /// Hands everything prepared to the kernel; reports how many. Bad operations are completions, not
  /// errors of submit(). Errors: unavailable (the kernel is short of memory now; what is left stays
  /// prepared: poll and submit again).
  Result<unsigned> submit();
  /// Takes what completed, up to the size of `into`. Cost: no system call.
  std::size_t poll(std::span<Completion> into);
  /// Returns when so many completions can be polled (or one of the ring's own, which poll() hides:
  /// poll, and wait again). Errors: timed_out.
  Status wait(const RingWait& until);
  /// Both in one system call.
  Status submit_and_wait(const RingWait& until);

  /// Asks the kernel to stop every operation with this id. Each still completes once: with
  /// -ECANCELED, or -EINTR, or as if nothing was asked when it was too late.
  Status cancel(std::uint64_t id);
  /// Cancels all and waits until the kernel let go of every buffer; appends the completions. What
  /// was prepared but not submitted is withdrawn and reported as -ECANCELED. Waits as long as a
  /// device needs for what cannot be cancelled any more.
  Status drain(std::vector<Completion>& into);

  /// Becomes readable when completions arrive (eventfd); lives with the ring. Made at the first
  /// call, where the options name none.
  Result<int> event_fd();

  /// Pins buffers, so that reads and writes by index skip the page look-up. One set at a time.
  /// Errors: exhausted (RLIMIT_MEMLOCK; the message has the numbers), invalid_argument (not mapped,
  /// or memory that cannot be pinned), already_exists (a set is registered), unsupported.
  Status register_buffers(std::span<const ByteSpan> buffers);
  /// A set of empty places that set_buffer fills one by one.
  Status reserve_buffers(unsigned count);
  /// Puts a buffer into its place; an empty span clears it. Errors: as register_buffers;
  /// invalid_argument (no such place).
  Status set_buffer(unsigned index, ByteSpan buffer);
  Status unregister_buffers();

  /// Makes files known by index. Errors: invalid_argument (a descriptor is not open),
  /// already_exists, exhausted (more than RLIMIT_NOFILE).
  Status register_files(std::span<const int> fds);
  Status reserve_files(unsigned count);
  /// -1 clears the place.
  Status set_file(unsigned index, int fd);
  Status unregister_files();

 private:
  explicit Ring(std::unique_ptr<internal::RingState> state) noexcept;

  std::unique_ptr<internal::RingState> state_;
};

/// What io_uring can do here, each by really doing it: a plain ring, a 128/32 ring, and the
/// operations that the library uses. Changes nothing.
std::vector<Finding> probe_ring();

}  // namespace towpath::sys
