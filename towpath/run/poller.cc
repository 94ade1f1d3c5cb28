#include <algorithm>
#include <cerrno>
#include <climits>

#include <poll.h>
#include <sys/epoll.h>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/run/poller.h>
#include <towpath/sys/os_error.h>

namespace towpath::run {

namespace {

epoll_event to_epoll(std::uint64_t tag, Interest interest) {
  epoll_event event{};
  if (interest.readable) event.events |= EPOLLIN | EPOLLRDHUP;
  if (interest.writable) event.events |= EPOLLOUT;
  event.data.u64 = tag;
  return event;
}

PollEvent from_epoll(const epoll_event& event) {
  return {.tag = event.data.u64,
          .readable = (event.events & (EPOLLIN | EPOLLRDHUP)) != 0,
          .writable = (event.events & EPOLLOUT) != 0,
          .broken = (event.events & (EPOLLHUP | EPOLLERR)) != 0};
}

// Rounded up, so that a loop around wait() does not spin through the last part of a millisecond.
int to_milliseconds(Duration timeout) {
  if (timeout <= Duration::zero()) return 0;
  if (timeout == Duration::max()) return -1;
  const auto milliseconds = timeout.count() / 1'000'000 + (timeout.count() % 1'000'000 != 0);
  return static_cast<int>(std::min<std::int64_t>(milliseconds, INT_MAX));
}

}  // namespace

Result<Poller> Poller::open() {
  sys::Fd fd(epoll_create1(EPOLL_CLOEXEC));
  if (!fd) return sys::os_error(errno, "cannot make an epoll instance");
  return Poller(std::move(fd));
}

Poller::Poller(sys::Fd fd) noexcept : fd_(std::move(fd)) {}

Status Poller::check_own() const {
  if (process_.is_this()) return {};
  return error(Code::not_ready,
               "what is watched belongs to the process that this one was forked from",
               "make another poller here");
}

Status Poller::add(int fd, std::uint64_t tag, Interest interest) {
  TOWPATH_TRY(check_own());
  epoll_event event = to_epoll(tag, interest);
  if (epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  if (errno == EPERM)
    return error(Code::invalid_argument, cat("descriptor ", fd, " cannot be watched"),
                 "watch sockets, pipes and eventfds; files are always ready");
  return sys::os_error(errno, cat("cannot watch descriptor ", fd));
}

Status Poller::modify(int fd, std::uint64_t tag, Interest interest) {
  TOWPATH_TRY(check_own());
  epoll_event event = to_epoll(tag, interest);
  if (epoll_ctl(fd_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return {};
  return sys::os_error(errno, cat("cannot change the watch of descriptor ", fd));
}

Status Poller::remove(int fd) {
  TOWPATH_TRY(check_own());
  if (epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0) return {};
  return sys::os_error(errno, cat("cannot end the watch of descriptor ", fd));
}

std::span<const PollEvent> Poller::wait(Duration timeout) noexcept {
  std::array<epoll_event, kMaxEvents> ready;
  const int count =
      epoll_wait(fd_.get(), ready.data(), static_cast<int>(kMaxEvents), to_milliseconds(timeout));
  TOWPATH_CHECK(count >= 0 || errno == EINTR, "epoll_wait refuses its own descriptor");
  const auto reported = static_cast<std::size_t>(std::max(count, 0));
  std::transform(ready.begin(), ready.begin() + reported, events_.begin(), from_epoll);
  return std::span(events_).first(reported);
}

bool Poller::wait_beside(const Waker& waker, Duration timeout) const noexcept {
  std::array<pollfd, 2> fds = {pollfd{.fd = fd_.get(), .events = POLLIN, .revents = 0},
                               pollfd{.fd = waker.fd(), .events = POLLIN, .revents = 0}};
  const int count = ::poll(fds.data(), fds.size(), to_milliseconds(timeout));
  TOWPATH_CHECK(count >= 0 || errno == EINTR, "poll refuses its own descriptors");
  return count > 0;
}

}  // namespace towpath::run
