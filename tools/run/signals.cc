#include "tools/run/signals.h"

#include <cerrno>
#include <csignal>

#include <sys/signalfd.h>
#include <unistd.h>

#include <towpath/sys/os_error.h>

namespace towpath::tools {
namespace {

/// As nohup has it of SIGHUP, and a shell of what a script starts in its background of SIGINT. A
/// signal that is blocked is reported by a descriptor even so.
bool is_ignored(int number) {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

Result<sys::Fd> watch_ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    if (!is_ignored(number)) sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  sys::Fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return sys::os_error(errno, "cannot watch signals");
  return signals;
}

int take_signal(const sys::Fd& signals) {
  signalfd_siginfo info{};
  return ::read(signals.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                  : 0;
}

}  // namespace towpath::tools
