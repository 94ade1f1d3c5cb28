#include <cerrno>
#include <cstring>

#include <sys/eventfd.h>

#include <towpath/core/check.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/uring_state.h>

namespace towpath::sys {
namespace {

constexpr unsigned kMaxEntries = 32768;  // IORING_MAX_ENTRIES
constexpr unsigned kMaxCompletionEntries = 2 * kMaxEntries;
constexpr unsigned kNeededFeatures =
    IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG;
constexpr const char* kAllow =
    "set sysctl kernel.io_uring_disabled=0, and allow io_uring_setup, io_uring_enter and "
    "io_uring_register in the container's seccomp profile";
constexpr Duration kDrainStep = std::chrono::milliseconds(20);

Status check_options(const RingOptions& options) {
  if (options.entries == 0 || options.entries > kMaxEntries)
    return error(Code::invalid_argument, cat("a ring of ", options.entries, " entries"),
                 cat("use 1 to ", kMaxEntries));
  if (options.completion_entries != 0 && (options.completion_entries < options.entries ||
                                          options.completion_entries > kMaxCompletionEntries))
    return error(Code::invalid_argument,
                 cat("a completion queue of ", options.completion_entries, " for ", options.entries,
                     " entries"),
                 cat("use ", options.entries, " to ", kMaxCompletionEntries, ", or 0"));
  return {};
}

Status setup_error(int errno_value) {
  switch (errno_value) {
    case EPERM:
    case EACCES: return os_error(errno_value, "io_uring is forbidden here", kAllow);
    case ENOSYS:
      return os_error(errno_value, "this kernel has no io_uring",
                      "use Linux 5.19 or newer, or allow io_uring_setup in the seccomp profile");
    case ENOMEM:
      return os_error(errno_value, "no memory for an io_uring",
                      "raise the limit of locked memory (ulimit -l), or use fewer entries");
    case EINVAL:
      return error(Code::unsupported,
                   "this kernel does not know the kind of ring that is asked for",
                   "use Linux 5.19 or newer");
    default: return os_error(errno_value, "cannot set an io_uring up");
  }
}

__kernel_timespec to_timespec(Duration duration) noexcept {
  const auto count = duration.count() > 0 ? duration.count() : 0;
  return {count / 1'000'000'000, count % 1'000'000'000};
}

Status too_old(const char* what) {
  return error(Code::unsupported, cat("the kernel's io_uring cannot ", what),
               "use Linux 5.19 or newer");
}

/// The destructor's promise rests on cancelling everything: see that this kernel can.
Status check_cancel_all(internal::RingState& state) {
  const Status sent = state.request_cancel(0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
  if (!sent.ok())
    return error(sent.code(), "an io_uring can be set up here, but not used", kAllow).because(sent);
  io_uring_cqe* cqe = nullptr;
  int rc = -EINTR;
  while (rc == -EINTR) rc = io_uring_wait_cqe(&state.ring, &cqe);
  if (rc < 0) return os_error(-rc, "cannot wait for an io_uring");
  const int result = cqe->res;
  io_uring_cqe_seen(&state.ring, cqe);
  --state.own_in_flight;
  return result == -EINVAL ? too_old("cancel all that is in flight") : Status();
}

}  // namespace

namespace internal {

io_uring_sqe* RingState::next_slot() noexcept {
  io_uring_sqe* slot = io_uring_get_sqe(&ring);
  if (slot != nullptr) std::memset(static_cast<void*>(slot), 0, options.sqe128 ? 128 : 64);
  return slot;
}

Status RingState::request_cancel(std::uint64_t id, unsigned flags) {
  io_uring_sqe* slot = next_slot();
  if (slot == nullptr) {
    TOWPATH_TRY(submit());
    slot = next_slot();
  }
  if (slot == nullptr) return error(Code::exhausted, "no submission is free for a cancellation");
  slot->opcode = IORING_OP_ASYNC_CANCEL;
  slot->fd = -1;
  slot->addr = id;
  slot->cancel_flags = flags;
  slot->user_data = kOwnId;
  ++own_in_flight;
  return submit().status();
}

Result<unsigned> RingState::submit() {
  unsigned total = 0;
  while (io_uring_sq_ready(&ring) > 0) {
    const int count = io_uring_submit(&ring);
    if (count == -EINTR) continue;
    if (count < 0)
      return os_error(-count, cat("cannot submit ", io_uring_sq_ready(&ring), " operations"),
                      "take completions, then submit again: nothing is lost");
    total += static_cast<unsigned>(count);
    // A polling kernel thread takes submissions when it comes by; they are handed over.
    if (count == 0 || options.kernel_polls) break;
  }
  return total;
}

Status RingState::wait(const RingWait& until, bool submit_first) {
  io_uring_cqe* cqe = nullptr;
  __kernel_timespec timeout = to_timespec(until.timeout);
  const int rc =
      submit_first
          ? io_uring_submit_and_wait_timeout(&ring, &cqe, until.completions, &timeout, nullptr)
          : io_uring_wait_cqes(&ring, &cqe, until.completions, &timeout, nullptr);
  // A bad operation ends the kernel's batch early: hand the rest over.
  if (rc >= 0 && submit_first) return submit().status();
  // An interrupted wait is a short one: the caller polls, and waits again.
  if (rc >= 0 || rc == -EINTR) return {};
  if (rc == -ETIME)
    return error(Code::timed_out, cat("fewer than ", until.completions, " completions after ",
                                      until.timeout.count(), " ns, ", in_flight, " in flight"));
  return os_error(-rc, "cannot wait for completions", "take completions, then wait again");
}

std::size_t RingState::poll(std::span<Completion> into) noexcept {
  std::size_t count = 0;
  unsigned seen = 0;
  unsigned head = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring, head, cqe) {
    if (count == into.size()) break;
    ++seen;
    if (cqe->user_data == kOwnId) {
      --own_in_flight;
      continue;
    }
    into[count] = {.id = cqe->user_data, .result = cqe->res};
    if (options.cqe32) into[count].extra = {cqe->big_cqe[0], cqe->big_cqe[1]};
    ++count;
  }
  io_uring_cq_advance(&ring, seen);
  in_flight -= static_cast<unsigned>(count);
  return count;
}

void RingState::withdraw_unsubmitted(std::vector<Completion>& into) {
  io_uring_sq& queue = ring.sq;
  const unsigned shift = options.sqe128 ? 1 : 0;
  for (unsigned i = queue.sqe_head; i != queue.sqe_tail; ++i) {
    const io_uring_sqe& slot = queue.sqes[(i & queue.ring_mask) << shift];
    if (slot.user_data == kOwnId) {
      --own_in_flight;
      continue;
    }
    into.push_back({.id = slot.user_data, .result = -ECANCELED});
    --in_flight;
  }
  queue.sqe_tail = queue.sqe_head;
}

}  // namespace internal

Ring::Ring(std::unique_ptr<internal::RingState> state) noexcept : state_(std::move(state)) {}
Ring::Ring(Ring&&) noexcept = default;

Ring& Ring::operator=(Ring&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Ring::~Ring() {
  if (!state_) return;
  std::vector<Completion> unread;
  const Status drained = drain(unread);
  TOWPATH_CHECK(drained.ok(),
                "a ring that cannot drain would leave the kernel writing into memory");
}

Result<Ring> Ring::open(const RingOptions& options) {
  TOWPATH_TRY(check_options(options));
  auto state = std::make_unique<internal::RingState>();
  state->options = options;
  io_uring_params parameters{};
  if (options.completion_entries != 0) {
    parameters.flags |= IORING_SETUP_CQSIZE;
    parameters.cq_entries = options.completion_entries;
  }
  if (options.sqe128) parameters.flags |= IORING_SETUP_SQE128;
  if (options.cqe32) parameters.flags |= IORING_SETUP_CQE32;
  if (options.kernel_polls) parameters.flags |= IORING_SETUP_SQPOLL;
  if (!options.interrupts && !options.kernel_polls) parameters.flags |= IORING_SETUP_COOP_TASKRUN;
  const int rc = io_uring_queue_init_params(options.entries, &state->ring, &parameters);
  if (rc < 0) return setup_error(-rc);
  state->set_up = true;
  state->depth = parameters.cq_entries;
  if ((parameters.features & kNeededFeatures) != kNeededFeatures)
    return too_old("keep completions when its queue is full");
  TOWPATH_TRY(check_cancel_all(*state));
  return Ring(std::move(state));
}

unsigned Ring::depth() const noexcept { return state_->depth; }
unsigned Ring::in_flight() const noexcept { return state_->in_flight; }
Result<unsigned> Ring::submit() { return state_->submit(); }
std::size_t Ring::poll(std::span<Completion> into) { return state_->poll(into); }
Status Ring::wait(const RingWait& until) { return state_->wait(until, false); }
Status Ring::submit_and_wait(const RingWait& until) { return state_->wait(until, true); }

Status Ring::cancel(std::uint64_t id) {
  return state_->request_cancel(id, IORING_ASYNC_CANCEL_ALL);
}

Status Ring::drain(std::vector<Completion>& into) {
  state_->withdraw_unsubmitted(into);
  Completion batch[64];
  while (state_->in_flight + state_->own_in_flight > 0) {
    // Asked again each time: an operation on its way between two of the kernel's queues is missed.
    if (state_->in_flight > 0) {
      Status asked = state_->request_cancel(0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
      if (!asked.ok() && asked.code() != Code::unavailable && asked.code() != Code::exhausted)
        return asked;
    }
    Status waited = state_->wait({.completions = 1, .timeout = kDrainStep}, false);
    if (!waited.ok() && waited.code() != Code::timed_out && waited.code() != Code::unavailable)
      return waited;
    while (const std::size_t count = state_->poll(batch))
      into.insert(into.end(), batch, batch + count);
  }
  return {};
}

Result<int> Ring::event_fd() {
  if (state_->event_fd >= 0) return state_->event_fd;
  int event_fd = state_->options.event_fd;
  if (event_fd < 0) {
    state_->own_event.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!state_->own_event) return os_error(errno, "cannot make an eventfd");
    event_fd = state_->own_event.get();
  }
  const int rc = io_uring_register_eventfd(&state_->ring, event_fd);
  if (rc < 0) return os_error(-rc, "cannot register an eventfd with an io_uring", kAllow);
  return state_->event_fd = event_fd;
}

}  // namespace towpath::sys
