#include "tools/run/hosts_job.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>

#include <fcntl.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/random.h>

#include "tools/run/signals.h"

namespace towpath::tools {
namespace {

constexpr std::uint64_t kSignalsTag = 0;  // the parts' tags follow

std::string replaced(std::string text, std::string_view what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

Result<std::string> path_of_this_program() {
  std::string path(PATH_MAX, '\0');
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  if (size < 0) return sys::os_error(errno, "cannot find the path of this program");
  path.resize(static_cast<std::size_t>(size));
  return path;
}

Result<std::string> this_directory() {
  std::string path(PATH_MAX, '\0');
  if (::getcwd(path.data(), path.size()) == nullptr)
    return sys::os_error(errno, "cannot find the directory");
  path.resize(path.find('\0'));
  return path;
}

/// One that leaves the command out would start nothing, and report no failure.
Status check_launcher(const std::string& launcher) {
  constexpr const char* kCommand = "{command}";
  if (std::ranges::count(launch_words(launcher, "", kCommand), kCommand) > 0) return {};
  return error(Code::invalid_argument,
               cat("--launcher '", printable(launcher, 256), "' has no word ", kCommand),
               "write it between spaces, without quotes: ssh {host} {command}");
}

}  // namespace

std::string quoted(const std::string& word) { return cat("'", replaced(word, "'", "'\\''"), "'"); }

std::vector<std::string> launch_words(const std::string& launcher, const std::string& host,
                                      const std::string& command) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < launcher.size();) {
    const std::size_t end = std::min(launcher.find(' ', begin), launcher.size());
    const std::string word = launcher.substr(begin, end - begin);
    if (word == "{command}")
      words.push_back(command);
    else if (!word.empty())
      words.push_back(replaced(word, "{host}", host));
    begin = end + 1;
  }
  return words;
}

Result<int> HostsJob::run() {
  const auto hosts = static_cast<int>(options_.hosts.size());
  if (hosts > options_.pes)
    return error(Code::invalid_argument, cat(options_.pes, " PEs on ", hosts, " hosts"),
                 "start at least one PE for each host");
  TOWPATH_TRY(check_launcher(options_.launcher));
  TOWPATH_TRY(poller_, run::Poller::open());
  TOWPATH_TRY(signals_, watch_ending_signals());
  TOWPATH_TRY(poller_->add(signals_.get(), kSignalsTag));
  token_ = cat(hex(sys::random_u64()), hex(sys::random_u64()));
  const std::uint64_t port =
      20'000 + sys::random_u64() % 12'000;  // below those of outgoing sockets
  const std::string& first_host = options_.hosts.front();
  const std::string address = first_host.substr(first_host.find('@') + 1);  // user@host, to ssh
  const std::string meet =
      cat("tcp://", options_.meet.empty() ? cat(address, ":", port) : options_.meet);
  for (int host = 0; host < hosts; ++host) {
    const int first = options_.pes * host / hosts;
    TOWPATH_TRY(start(meet, static_cast<std::size_t>(host), first,
                      options_.pes * (host + 1) / hosts - first));
  }
  while (parts_.running() > 0) {
    for (const run::PollEvent& event : poller_->wait(end_.remaining(clock_)))
      event.tag == kSignalsTag ? on_signal() : on_end(static_cast<int>(event.tag - 1));
    if (!end_.expired(clock_)) continue;
    parts_.signal_all(killing_ ? SIGKILL : SIGTERM);
    killing_ = true;
    end_after_grace();
  }
  return status_;
}

Status HostsJob::start(const std::string& meet, std::size_t host, int first, int count) {
  TOWPATH_TRY(const std::string program, path_of_this_program());
  TOWPATH_TRY(const std::string directory, this_directory());
  std::string line = cat("cd ", quoted(directory), " && exec ", quoted(program), " run --part ",
                         first, "/", options_.pes, " -n ", count, " --meet ", quoted(meet));
  for (const std::string& word : options_.passed) line += cat(" ", quoted(word));
  line += " --";
  for (const std::string& word : options_.words) line += cat(" ", quoted(word));

  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return sys::os_error(errno, "cannot make a pipe");
  const sys::Fd reader(ends[0]);
  lines_.emplace_back(ends[1]);
  const std::string secret = token_ + "\n";
  if (::write(ends[1], secret.data(), secret.size()) < 0)
    return sys::os_error(errno, "cannot write to a pipe");
  TOWPATH_TRY(parts_.start({.words = launch_words(options_.launcher, options_.hosts[host], line),
                            .name = cat("the part on ", options_.hosts[host]),
                            .in = reader.get()}));
  return poller_->add(parts_.fd(static_cast<int>(host)), host + 1);
}

void HostsJob::on_signal() {
  const int number = take_signal(signals_);
  if (number == 0) return;
  fail(128 + number, cat("signal ", number, ": ending all PEs"));
  parts_.signal_all(SIGTERM);
  killing_ = true;
  end_after_grace();
}

void HostsJob::on_end(int part) {
  const auto end = parts_.reap(part);
  if (!end) return;
  (void)poller_->remove(parts_.fd(part));
  if (end->status != 0)
    fail(end->status,
         cat("the part on ", options_.hosts[static_cast<std::size_t>(part)], " ", end->in_words));
}

void HostsJob::fail(int status, const std::string& why) {
  if (!killing_) std::fprintf(stderr, "towpath run: %s\n", why.c_str());
  if (status_ != 0) return;
  status_ = status;
  if (!options_.keep) end_after_grace();
}

void HostsJob::end_after_grace() {
  // The other parts hear of it from their PEs, and have a grace time of their own.
  end_ = run::Deadline::after(clock_, std::chrono::seconds(options_.grace_s + 1));
}

}  // namespace towpath::tools
