// Job: the PEs of one host, from start to end, as their launcher sees them: all of a job, or a part
// of one over several hosts, whose launcher (hosts_job.h) is elsewhere.
// Thread: none of its own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <towpath/run/deadline.h>
#include <towpath/run/poller.h>
#include <towpath/shmem/job.h>
#include <towpath/sys/clock.h>

#include "tools/run/lines.h"
#include "tools/run/pes.h"

namespace towpath::tools {

struct JobOptions {
  int pes = 1;
  std::string heap = "256M";
  std::string huge_pages = "off";
  std::vector<unsigned> nodes;  ///< NUMA nodes for the heaps, by turns
  std::string network;          ///< between hosts: tcp, ucx; empty: as it finds it
  std::string security;         ///< between hosts: tls, authenticated; empty: the default
  bool prefix = false;
  bool keep = false;
  unsigned grace_s = 2;
  unsigned start_s = 60;
  std::vector<std::string> words;  ///< the program, and its arguments
  std::string meet;                ///< of a part: where its PEs meet those of others
  std::string part;                ///< "2/4": this part begins with PE 2 of 4
};

/// Which PEs of a job this process starts.
struct Part {
  int first = 0;
  int pes = 0;  ///< of the whole job
};

class Job {
 public:
  explicit Job(const JobOptions& options) : options_(options) {}

  /// The exit status. Errors: those of the options, of starting the PEs, and of the system.
  Result<int> run();

 private:
  // Tags of the poller: the signals, the launcher of a part, then the PEs, then their lines.
  static constexpr std::uint64_t kSignals = 0, kLauncher = 1, kFirstPe = 2;
  std::uint64_t first_lines() const;

  /// Of a part: takes the token that the launcher writes first, and watches its end of the pipe.
  Status join_launcher();
  void on_launcher_gone();
  Status start(int index);
  /// The end of a pipe that a PE writes to.
  Result<sys::Fd> take_lines(int pe, std::FILE* to);
  void turn();
  void on_signal();
  void end_all();
  void on_end(int index);
  /// A PE has asked for the end of all.
  void heed_wanted_end();
  void on_lines(std::uint64_t tag);
  /// A PE that never begins keeps those waiting that have.
  void look_who_has_begun();
  bool any_has_begun() const;
  /// The first failure is the job's; from then on its time is up, unless it is kept.
  void fail(int status, const std::string& why);

  const JobOptions& options_;
  const sys::SystemClock clock_;
  Part part_;
  shmem::JobFiles files_;
  sys::Fd token_;    // of a part: a file for its PEs
  sys::Fd nothing_;  // of a part: its PEs' standard input
  std::optional<shmem::JobView> view_;
  std::optional<run::Poller> poller_;
  sys::Fd signals_;
  std::map<std::uint64_t, Lines> lines_;  // by tag
  std::uint64_t next_lines_ = 0;
  Pes pes_;
  run::Deadline end_ = run::Deadline::never();  // of the grace time
  run::Deadline start_end_ = run::Deadline::never();
  bool killing_ = false;
  int status_ = 0;
};

}  // namespace towpath::tools
