// HostsJob: a job over several hosts, as its launcher sees it: one `towpath run --part` on each.
//
//   towpath run --hosts a,b -n 4 -- program
//     ssh a 'cd DIRECTORY && exec towpath run --part 0/4 -n 2 --meet tcp://a:PORT ... -- program'
//     ssh b 'cd DIRECTORY && exec towpath run --part 2/4 -n 2 --meet tcp://a:PORT ... -- program'
//
// A part gets the job's token on its standard input, which stays open as long as the launcher
// lives: at its end the part ends its PEs, whatever became of ssh in between.
// Thread: none of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <towpath/run/deadline.h>
#include <towpath/run/poller.h>
#include <towpath/sys/clock.h>

#include "tools/run/pes.h"

namespace towpath::tools {

struct HostsOptions {
  std::vector<std::string> hosts;
  int pes = 1;
  std::string launcher;             ///< with {host} and {command}, a shell's line
  std::string meet;                 ///< host:port; empty: the first host, a port by chance
  std::vector<std::string> passed;  ///< options for every part
  std::vector<std::string> words;   ///< the program, and its arguments
  unsigned grace_s = 2;
  bool keep = false;  ///< let the other hosts go on when a part fails
};

/// What is run for a host: the words of `launcher`, `command` in place of {command} as one word.
std::vector<std::string> launch_words(const std::string& launcher, const std::string& host,
                                      const std::string& command);
/// `word` as a shell reads it.
std::string quoted(const std::string& word);

class HostsJob {
 public:
  explicit HostsJob(const HostsOptions& options) : options_(options) {}
  /// The exit status: that of the first part that failed. Errors: those of starting them.
  Result<int> run();

 private:
  Status start(const std::string& meet, std::size_t host, int first, int count);
  void on_signal();
  void on_end(int part);
  void fail(int status, const std::string& why);
  void end_after_grace();

  const HostsOptions& options_;
  const sys::SystemClock clock_;
  std::string token_;
  std::vector<sys::Fd> lines_;  // to the parts' standard input
  std::optional<run::Poller> poller_;
  sys::Fd signals_;
  Pes parts_;
  run::Deadline end_ = run::Deadline::never();
  bool killing_ = false;
  int status_ = 0;
};

}  // namespace towpath::tools
