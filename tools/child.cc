#include "tools/child.h"

#include <csignal>

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/text.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/process.h>

namespace towpath::tools {

Result<Child> Child::start(std::string what, const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (const int failed =
          posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv.data(), environ);
      failed != 0) {
    return sys::os_error(failed, cat("cannot start the ", what, " process"));
  }
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
  int status = 0;
  if (pid_ >= 0 && waitpid(pid_, &status, WNOHANG) == 0) return {};
  pid_ = -1;
  const std::string how = WIFSIGNALED(status) ? cat("was ended by signal ", WTERMSIG(status))
                                              : cat("ended with status ", WEXITSTATUS(status));
  return error(Code::peer_lost, cat("the ", what_, " process ", how), "its last words stand above");
}

}  // namespace towpath::tools
