#include "tools/run/pes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/process.h>

namespace towpath::tools {
namespace {

bool pass_on(int fd) { return ::fcntl(fd, F_SETFD, 0) == 0; }

/// In the child, between fork and exec. Answers errno if the program cannot be run.
int become(const PeCommand& command, char* const* words, pid_t launcher) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) return ESRCH;  // it died before
  if (command.in >= 0 && ::dup2(command.in, STDIN_FILENO) < 0) return errno;
  if (command.out >= 0 && ::dup2(command.out, STDOUT_FILENO) < 0) return errno;
  if (command.err >= 0 && ::dup2(command.err, STDERR_FILENO) < 0) return errno;
  for (const int fd : command.inherited)
    if (!pass_on(fd)) return errno;
  for (const auto& [name, value] : command.variables)
    if (::setenv(name.c_str(), value.c_str(), 1) != 0) return errno;
  ::execvp(words[0], words);
  return errno;
}

/// What the child could not do, reported through a pipe that exec closes.
Status read_failure(const sys::Fd& pipe, const std::string& program) {
  int failed = 0;
  ssize_t count = 0;
  do {
    count = ::read(pipe.get(), &failed, sizeof failed);
  } while (count < 0 && errno == EINTR);
  if (count != sizeof failed) return {};
  return sys::os_error(failed, cat("cannot run ", printable(program, 256)));
}

}  // namespace

Status Pes::start(const PeCommand& command) {
  std::vector<char*> words;
  for (const std::string& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return sys::os_error(errno, "cannot make a pipe");
  const sys::Fd reader(ends[0]);
  sys::Fd writer(ends[1]);
  const pid_t launcher = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return sys::os_error(errno, cat("cannot start ", command.name));
  if (child == 0) {
    const int failed = become(command, words.data(), launcher);
    (void)!::write(writer.get(), &failed, sizeof failed);
    ::_exit(127);
  }
  rows_.push_back({.pid = child});
  writer.reset();
  TOWPATH_TRY(read_failure(reader, command.words.front()));
  TOWPATH_TRY(rows_.back().process, sys::open_process(child));
  return {};
}

Pes::~Pes() {
  signal_all(SIGKILL);
  for (const Row& row : rows_)
    if (row.pid > 0) ::waitpid(row.pid, nullptr, 0);
}

std::optional<Pes::End> Pes::reap(int index) {
  Row& row = rows_[static_cast<std::size_t>(index)];
  int status = 0;
  if (row.pid < 0 || ::waitpid(row.pid, &status, WNOHANG) != row.pid) return std::nullopt;
  row.pid = -1;
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return End{.status = 128 + number,
               .in_words = cat("was ended by signal ", number, " (", strsignal(number), ")")};
  }
  return End{.status = WEXITSTATUS(status),
             .in_words = cat("ended with status ", WEXITSTATUS(status))};
}

std::size_t Pes::running() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows_, [](const Row& row) { return row.pid > 0; }));
}

void Pes::signal_all(int number) const noexcept {
  for (const Row& row : rows_)
    if (row.pid > 0) ::kill(row.pid, number);
}

}  // namespace towpath::tools
