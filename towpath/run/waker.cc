#include <cerrno>
#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

#include <towpath/run/waker.h>
#include <towpath/sys/os_error.h>

namespace towpath::run {

Result<std::unique_ptr<Waker>> Waker::open() {
  sys::Fd fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd) return sys::os_error(errno, "cannot make an eventfd");
  return std::unique_ptr<Waker>(new Waker(std::move(fd)));
}

void Waker::wake() noexcept {
  // acq_rel: the release pairs with the exchange in clear(), also when a wake-up is pending
  // already, because the read-modify-writes of one word form a chain.
  if (pending_.exchange(true, std::memory_order_acq_rel)) return;
  const std::uint64_t one = 1;
  // Cannot fail but by a signal: the counter never comes near its limit.
  while (write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Waker::clear() noexcept {
  // Acquire: pairs with the exchange in wake(). Nothing to forget costs no system call.
  if (!pending_.load(std::memory_order_acquire)) return;
  std::uint64_t count = 0;
  ssize_t size = 0;
  while ((size = read(fd_.get(), &count, sizeof count)) < 0 && errno == EINTR) {
  }
  // Not written yet: a wake() is between its two steps. The flag stays up until there is something
  // to read, or the descriptor would stay readable with nobody to clear it.
  if (size < 0) return;
  // The counter first, then the flag. The other way round, a wake() in between would be swallowed
  // here and leave the flag up with nothing to read: every later wake() would stay silent.
  // Acquire: pairs with the releases in wake(). An exchange, because a plain store would read none.
  pending_.exchange(false, std::memory_order_acq_rel);
}

}  // namespace towpath::run
