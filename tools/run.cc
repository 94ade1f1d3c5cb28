// `towpath run`: starts the processes of a program with symmetric memory, and sees them end.
#include <csignal>
#include <map>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <towpath/core/text.h>
#include <towpath/run/deadline.h>
#include <towpath/run/poller.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/os_error.h>

#include "tools/command.h"
#include "tools/run/lines.h"
#include "tools/run/pes.h"

namespace towpath::tools {
namespace {

constexpr const char* kFooter =
    R"(The processes (PEs) find their job in TOWPATH_SHMEM_PE and TOWPATH_SHMEM_JOB, and share nothing
that has a name: nothing is left behind, however they end. A PE that fails is told to the others
at once; those that have not ended after the grace time are ended.

Exit status: that of the first PE that failed, 128 and the number of the signal that ended it; 0
when none failed; 2 the command line makes no sense; 3 the program cannot be run.

Examples:
  towpath run -n 4 -- ./program arguments
  towpath run -n 2 --prefix --heap 1G -- ./program)";

struct Arguments {
  int pes = 1;
  std::string heap = "256M";
  bool prefix = false;
  bool keep = false;
  unsigned grace_s = 2;
  unsigned start_s = 60;
  std::vector<std::string> words;
};

/// One job, from start to end.
class Job {
 public:
  explicit Job(const Arguments& arguments) : arguments_(arguments) {}

  /// The exit status.
  Result<int> run() {
    TOWPATH_TRY(const std::uint64_t heap_bytes, parse_bytes(arguments_.heap));
    TOWPATH_TRY(files_, shmem::create_job({.pes = arguments_.pes, .heap_bytes = heap_bytes}));
    TOWPATH_TRY(view_, shmem::JobView::map(files_.control.get()));
    TOWPATH_TRY(poller_, run::Poller::open());
    TOWPATH_TRY(watch_signals());
    for (int pe = 0; pe < arguments_.pes; ++pe) TOWPATH_TRY(start(pe));
    start_end_ = run::Deadline::after(clock_, std::chrono::seconds(arguments_.start_s));
    while (pes_.running() > 0 || !lines_.empty()) turn();
    return status_;
  }

 private:
  // Tags of the poller: the signals, then the PEs, then their lines.
  static constexpr std::uint64_t kSignals = 0;
  std::uint64_t first_lines() const { return 1 + static_cast<std::uint64_t>(arguments_.pes); }

  Status watch_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) return sys::os_error(errno, "cannot watch signals");
    return poller_->add(signals_.get(), kSignals);
  }

  Status start(int pe) {
    PeCommand command{.words = arguments_.words, .pe = pe};
    sys::Fd out, err;
    if (arguments_.prefix) {
      TOWPATH_TRY(out, take_lines(pe, stdout));
      TOWPATH_TRY(err, take_lines(pe, stderr));
      command.out = out.get();
      command.err = err.get();
    }
    TOWPATH_TRY(pes_.start(files_, command));
    return poller_->add(pes_.fd(pe), 1 + static_cast<std::uint64_t>(pe));
  }

  /// The end of a pipe that a PE writes to.
  Result<sys::Fd> take_lines(int pe, std::FILE* to) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return sys::os_error(errno, "cannot make a pipe");
    sys::Fd reader(ends[0]), writer(ends[1]);
    (void)::fcntl(reader.get(), F_SETFL, O_NONBLOCK);  // the PE's side may block
    const std::uint64_t tag = first_lines() + next_lines_++;
    TOWPATH_TRY(poller_->add(reader.get(), tag));
    lines_.emplace(tag, Lines(std::move(reader), to, cat("[", pe, "] ")));
    return writer;
  }

  void turn() {
    const run::Deadline next = run::Deadline::earlier(end_, start_end_);
    for (const run::PollEvent& event : poller_->wait(next.remaining(clock_))) {
      if (event.tag == kSignals)
        on_signal();
      else if (event.tag < first_lines())
        on_end(static_cast<int>(event.tag - 1));
      else
        on_lines(event.tag);
    }
    if (start_end_.expired(clock_)) look_who_has_begun();
    if (end_.expired(clock_)) {
      pes_.signal_all(killing_ ? SIGKILL : SIGTERM);
      killing_ = true;
      end_ = run::Deadline::after(clock_, std::chrono::seconds(1));
    }
    // What a PE's own children still hold open is not waited for.
    if (pes_.running() == 0)
      for (auto at = lines_.begin(); at != lines_.end(); at = lines_.erase(at)) {
        (void)at->second.pass_on();
        (void)poller_->remove(at->second.fd());
      }
  }

  void on_signal() {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
    fail(128 + static_cast<int>(info.ssi_signo),
         cat("signal ", info.ssi_signo, ": ending all PEs"));
    end_all();
  }

  void end_all() {
    pes_.signal_all(SIGTERM);
    killing_ = true;
    end_ = run::Deadline::after(clock_, std::chrono::seconds(arguments_.grace_s));
  }

  void on_end(int pe) {
    const auto end = pes_.reap(pe);
    if (!end) return;
    (void)poller_->remove(pes_.fd(pe));
    view_->mark(static_cast<std::uint32_t>(pe), shmem::PeState::lost);
    if (const auto wanted = view_->wanted_end(); wanted && !killing_) {
      status_ = *wanted;
      end_all();
    }
    if (end->status != 0 && !view_->wanted_end())
      fail(end->status, cat("PE ", pe, " ", end->in_words));
  }

  void on_lines(std::uint64_t tag) {
    const auto at = lines_.find(tag);
    if (at == lines_.end() || at->second.pass_on()) return;
    (void)poller_->remove(at->second.fd());
    lines_.erase(at);
  }

  /// A PE that never begins keeps those waiting that have.
  void look_who_has_begun() {
    start_end_ = run::Deadline::never();
    std::string absent;
    for (std::uint32_t pe = 0; pe < view_->pes(); ++pe)
      if (view_->pe(pe).state.load() == static_cast<std::uint32_t>(shmem::PeState::absent))
        absent += cat(" ", pe);
    const bool some_have = view_->header().losses.load() > 0 || any_has_begun();
    if (!absent.empty() && some_have)
      fail(static_cast<int>(Exit::could_not_run),
           cat("after ", arguments_.start_s, " s these PEs have not begun:", absent));
  }
  bool any_has_begun() const {
    for (std::uint32_t pe = 0; pe < view_->pes(); ++pe)
      if (view_->pe(pe).state.load() != 0) return true;
    return false;
  }

  /// The first failure is the job's; from then on its time is up, unless it is kept.
  void fail(int status, const std::string& why) {
    // Those that are ended by us say nothing new.
    if (!killing_) std::fprintf(stderr, "towpath run: %s\n", why.c_str());
    if (status_ != 0) return;
    status_ = status;
    if (!arguments_.keep)
      end_ = run::Deadline::after(clock_, std::chrono::seconds(arguments_.grace_s));
  }

  const Arguments& arguments_;
  const sys::SystemClock clock_;
  shmem::JobFiles files_;
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

}  // namespace

void add_run(CLI::App& app, Exit& exit) {
  CLI::App* command =
      app.add_subcommand("run", "Start the processes of a program with symmetric memory");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("-n,--pes", arguments->pes, "Processes (PEs) to start")
      ->required()
      ->check(CLI::Range(1, static_cast<int>(shmem::kMaxPes)));
  command->add_option("--heap", arguments->heap, "Symmetric heap of each PE")
      ->envname("SHMEM_SYMMETRIC_SIZE")
      ->capture_default_str();
  command->add_flag("--prefix", arguments->prefix, "Begin each line of output with its PE");
  command->add_flag("--keep", arguments->keep, "Let the others go on when a PE fails");
  command->add_option("--grace", arguments->grace_s, "Seconds the others have when a PE fails")
      ->capture_default_str();
  command->add_option("--start-timeout", arguments->start_s, "Seconds in which all PEs must begin")
      ->capture_default_str();
  command->add_option("program", arguments->words, "The program, and its arguments, after --")
      ->required();
  command->positionals_at_end();
  command->footer(kFooter);
  when_chosen(command, exit, [arguments]() -> Result<Exit> {
    TOWPATH_TRY(const int status, Job(*arguments).run());
    return static_cast<Exit>(status);
  });
}

}  // namespace towpath::tools
