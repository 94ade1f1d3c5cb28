#include <cerrno>
#include <climits>
#include <csignal>
#include <string_view>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <towpath/sys/os_error.h>
#include <towpath/sys/process.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {

Result<Fd> open_process(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd) return fd;
  if (errno == ESRCH) return error(Code::peer_lost, cat("process ", pid, " does not exist"));
  return os_error(errno, cat("cannot watch process ", pid));
}

bool process_exists(std::uint64_t number) noexcept {
  // 0 and what is negative as a pid_t mean groups of processes to kill(2).
  if (number == 0 || number > INT_MAX) return false;
  return ::kill(static_cast<pid_t>(number), 0) == 0 || errno != ESRCH;
}

bool has_ended(const Fd& process) noexcept {
  pollfd poll{.fd = process.get(), .events = POLLIN};
  return ::poll(&poll, 1, 0) == 1 && (poll.revents & POLLIN) != 0;
}

namespace {

/// Field `number` of /proc/<pid>/stat, at least 3 (proc(5)); empty: there is none.
Result<std::string> stat_field(pid_t pid, int number, const std::string& proc) {
  auto text = read_text_file(cat(proc, "/", pid, "/stat"));
  // The process may end between open and read.
  if (text.code() == Code::not_found)
    return error(Code::peer_lost, cat("process ", pid, " does not exist")).because(text.status());
  TOWPATH_TRY(text.status());
  // pid (name) state ppid ...: the name may hold anything, so count from its last parenthesis,
  // which ends field 2.
  std::string_view rest = *text;
  const std::size_t name_end = rest.rfind(')');
  rest = name_end == std::string_view::npos ? std::string_view() : rest.substr(name_end + 1);
  for (int field = 3; field < number && !rest.empty(); ++field) {
    const std::size_t start = rest.find_first_not_of(' ');
    const std::size_t end = rest.find(' ', start);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end);
  }
  rest = trimmed(rest);
  return std::string(rest.substr(0, rest.find(' ')));
}

Status no_field(std::string_view which, pid_t pid, const std::string& proc) {
  return error(Code::corrupt, cat("no ", which, " in '", proc, "/", pid, "/stat'"));
}

}  // namespace

Result<std::uint64_t> process_start_time(pid_t pid, const std::string& proc) {
  TOWPATH_TRY(const std::string field, stat_field(pid, 22, proc));
  const auto ticks = parse_number(field);
  if (!ticks) return no_field("start time", pid, proc);
  return *ticks;
}

Result<bool> process_is_stopped(pid_t pid, const std::string& proc) {
  TOWPATH_TRY(const std::string state, stat_field(pid, 3, proc));
  if (state.size() != 1) return no_field("state", pid, proc);
  return state == "T";
}

}  // namespace towpath::sys
