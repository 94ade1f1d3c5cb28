#include "bench/child.h"

#include <csignal>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/sys/os_error.h>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr std::size_t kMostBytes = 128 * 1024;

}  // namespace

void Channel::send(ConstByteSpan message) const {
  const ssize_t sent = ::send(end_.get(), message.data(), message.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(message.size()))
    fail(sys::os_error(errno, "send to the other process"));
}

Bytes Channel::receive() const {
  Bytes message(kMostBytes);
  const ssize_t size = ::read(end_.get(), message.data(), message.size());
  message.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return message;
}

Child::Child(const std::function<void(const Channel&)>& life) : channel_(sys::Fd()) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    fail(sys::os_error(errno, "socketpair"));
  pid_ = ::fork();
  if (pid_ < 0) fail(sys::os_error(errno, "fork"));
  channel_ = Channel(sys::Fd(ends[pid_ == 0 ? 1 : 0]));
  ::close(ends[pid_ == 0 ? 0 : 1]);
  if (pid_ > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  life(channel_);
  ::_exit(0);
}

Child::~Child() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace towpath::bench
