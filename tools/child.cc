#include "tools/child.h"

#include <csignal>
#include <cstring>

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/process.h>

namespace towpath::tools {

Result<Child> Child::start(std::string what, const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);  // its own
  pid_t pid = 0;
  const int failed =
      posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return sys::os_error(failed, cat("cannot start the ", what, " process"));
  return Child(std::move(what), pid);
}

Child::~Child() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Child::ends_within(Duration most) {
  if (pid_ < 0) return true;
  const auto process = sys::open_process(pid_);
  if (process.ok()) {
    pollfd ended{.fd = process->get(), .events = POLLIN, .revents = 0};
    (void)poll(&ended, 1, static_cast<int>(most / std::chrono::milliseconds(1)));
  }
  return !lives().ok();
}

Status Child::lives() {
  if (pid_ >= 0 && waitpid(pid_, &status_, WNOHANG) == 0) return {};
  pid_ = -1;
  if (WIFSIGNALED(status_)) return ended_by_signal();
  return error(Code::peer_lost,
               cat("the ", what_, " process ended with status ", WEXITSTATUS(status_)),
               "its last words stand above");
}

Status Child::ended_by_signal() {
  if (pid_ >= 0 && waitpid(pid_, &status_, WNOHANG) != 0) pid_ = -1;
  if (pid_ >= 0 || !WIFSIGNALED(status_)) return {};
  const int signal = WTERMSIG(status_);
  return error(
      Code::peer_lost,
      cat("the ", what_, " process was ended by signal ", signal, " (", sigabbrev_np(signal), ")"),
      signal == SIGKILL
          ? "where nobody sent it, the kernel was out of memory: see dmesg, and take less"
          : "it crashed: `towpath flight` reads what its recorder has");
}

}  // namespace towpath::tools
