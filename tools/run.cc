// `towpath run`: starts the processes of a program with symmetric memory, and sees them end.
#include <csignal>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

#include <towpath/core/text.h>
#include <towpath/net/token.h>
#include <towpath/run/deadline.h>
#include <towpath/run/poller.h>
#include <towpath/standard/shmem_environment.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/text_file.h>

#include "tools/command.h"
#include "tools/run/hosts_job.h"
#include "tools/run/lines.h"
#include "tools/run/pes.h"
#include "tools/run/signals.h"

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
  towpath run -n 2 --prefix --heap 1G -- ./program
  towpath run --hosts left,right -n 4 -- ./program arguments

With --hosts the PEs are spread evenly, in order, and this program runs on each host by --launcher,
in the same directory; {command} is one word, a shell's line. It must be there under the same
path. The hosts need a network in common that is trusted: the token that keeps strangers out is
no encryption.)";

struct Arguments {
  int pes = 1;
  std::string heap = "256M";
  bool prefix = false;
  bool keep = false;
  unsigned grace_s = 2;
  unsigned start_s = 60;
  std::vector<std::string> words;
  std::vector<std::string> hosts;
  std::string launcher = "ssh {host} {command}";
  std::string meet;
  std::string part;  ///< "2/4": this part begins with PE 2 of 4
};

constexpr Duration kBetweenLooks = std::chrono::milliseconds(200);

/// Which PEs of a job this process starts.
struct Part {
  int first = 0;
  int pes = 0;  ///< of the whole job
};

Result<Part> part_of(const Arguments& arguments) {
  if (arguments.part.empty()) return Part{.pes = arguments.pes};
  const std::size_t slash = arguments.part.find('/');
  const auto first = sys::parse_number(arguments.part.substr(0, slash));
  const auto pes =
      slash == std::string::npos ? first : sys::parse_number(arguments.part.substr(slash + 1));
  if (!first || !pes || *pes > shmem::kMaxPes ||
      *first + static_cast<unsigned>(arguments.pes) > *pes)
    return error(Code::invalid_argument, cat("--part ", printable(arguments.part)),
                 "it is for `towpath run --hosts` only");
  return Part{.first = static_cast<int>(*first), .pes = static_cast<int>(*pes)};
}

/// One job, from start to end.
class Job {
 public:
  explicit Job(const Arguments& arguments) : arguments_(arguments) {}

  /// The exit status.
  Result<int> run() {
    TOWPATH_TRY(const std::uint64_t heap_bytes, parse_bytes(arguments_.heap));
    TOWPATH_TRY(part_, part_of(arguments_));
    TOWPATH_TRY(files_, shmem::create_job(
                            {.pes = part_.pes, .heap_bytes = heap_bytes, .heaps = arguments_.pes}));
    std::vector<std::uint32_t> here(static_cast<std::size_t>(arguments_.pes));
    std::iota(here.begin(), here.end(), static_cast<std::uint32_t>(part_.first));
    files_ = shmem::spread(std::move(files_), here, static_cast<std::uint32_t>(part_.pes));
    TOWPATH_TRY(view_, shmem::JobView::map(files_.control.get()));
    TOWPATH_TRY(poller_, run::Poller::open());
    TOWPATH_TRY(signals_, watch_ending_signals());
    TOWPATH_TRY(poller_->add(signals_.get(), kSignals));
    if (!arguments_.part.empty()) TOWPATH_TRY(join_launcher());
    for (int index = 0; index < arguments_.pes; ++index) TOWPATH_TRY(start(index));
    start_end_ = run::Deadline::after(clock_, std::chrono::seconds(arguments_.start_s));
    while (pes_.running() > 0 || !lines_.empty()) turn();
    return status_;
  }

 private:
  // Tags of the poller: the signals, the launcher of a part, then the PEs, then their lines.
  static constexpr std::uint64_t kSignals = 0, kLauncher = 1, kFirstPe = 2;
  std::uint64_t first_lines() const {
    return kFirstPe + static_cast<std::uint64_t>(arguments_.pes);
  }

  /// Of a part: takes the token that the launcher writes first, and watches its end of the pipe.
  Status join_launcher() {
    std::string token;
    for (char next = 0; next != '\n' && token.size() < net::Token::kMaxBytes;) {
      if (::read(STDIN_FILENO, &next, 1) != 1)
        return error(Code::invalid_argument, "the launcher gave no token",
                     "--part is for `towpath run --hosts` only");
      token += next;
    }
    TOWPATH_TRY(token_, sys::create_sealed_memfd("towpath-shmem-token", token.size()));
    if (::pwrite(token_.get(), token.data(), token.size(), 0) < 0)
      return sys::os_error(errno, "cannot keep the token");
    nothing_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    return poller_->add(STDIN_FILENO, kLauncher);
  }

  void on_launcher_gone() {
    (void)poller_->remove(STDIN_FILENO);
    fail(128 + SIGHUP, "the launcher has gone: ending all PEs");
    end_all();
  }

  Status start(int index) {
    const int pe = part_.first + index;
    PeCommand command{.words = arguments_.words,
                      .name = cat("PE ", pe),
                      .variables = standard::shmem_variables(files_, pe),
                      .inherited = {files_.control.get()},
                      .in = nothing_.get()};
    for (const sys::Fd& heap : files_.heaps)
      if (heap) command.inherited.push_back(heap.get());
    if (token_) {
      command.inherited.push_back(token_.get());
      command.variables.merge(standard::shmem_variables(
          cat(arguments_.meet, "?token-file=/proc/self/fd/", token_.get()), part_.pes));
    }
    sys::Fd out, err;
    if (arguments_.prefix) {
      TOWPATH_TRY(out, take_lines(pe, stdout));
      TOWPATH_TRY(err, take_lines(pe, stderr));
      command.out = out.get();
      command.err = err.get();
    }
    TOWPATH_TRY(pes_.start(command));
    return poller_->add(pes_.fd(index), kFirstPe + static_cast<std::uint64_t>(index));
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
    Duration patience = next.remaining(clock_);
    // What PEs of other hosts want is told by no descriptor.
    if (!arguments_.part.empty() && !killing_) patience = std::min(patience, kBetweenLooks);
    for (const run::PollEvent& event : poller_->wait(patience)) {
      if (event.tag == kSignals)
        on_signal();
      else if (event.tag == kLauncher)
        on_launcher_gone();
      else if (event.tag < first_lines())
        on_end(static_cast<int>(event.tag - kFirstPe));
      else
        on_lines(event.tag);
    }
    heed_wanted_end();
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
    const int number = take_signal(signals_);
    if (number == 0) return;
    fail(128 + number, cat("signal ", number, ": ending all PEs"));
    end_all();
  }

  void end_all() {
    pes_.signal_all(SIGTERM);
    killing_ = true;
    end_ = run::Deadline::after(clock_, std::chrono::seconds(arguments_.grace_s));
  }

  void on_end(int index) {
    const auto end = pes_.reap(index);
    if (!end) return;
    (void)poller_->remove(pes_.fd(index));
    const int pe = part_.first + index;
    view_->mark(static_cast<std::uint32_t>(pe), shmem::PeState::lost);
    heed_wanted_end();
    if (end->status != 0 && !view_->wanted_end())
      fail(end->status, cat("PE ", pe, " ", end->in_words));
  }

  /// A PE has asked for the end of all.
  void heed_wanted_end() {
    const auto wanted = view_->wanted_end();
    if (!wanted || killing_) return;
    status_ = *wanted;
    end_all();
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

Result<int> run_job(const Arguments& arguments) {
  if (arguments.hosts.empty()) return Job(arguments).run();
  HostsOptions options{.hosts = arguments.hosts,
                       .pes = arguments.pes,
                       .launcher = arguments.launcher,
                       .meet = arguments.meet,
                       .passed = {"--heap", arguments.heap, "--grace", cat(arguments.grace_s),
                                  "--start-timeout", cat(arguments.start_s)},
                       .words = arguments.words,
                       .grace_s = arguments.grace_s};
  if (arguments.prefix) options.passed.emplace_back("--prefix");
  if (arguments.keep) options.passed.emplace_back("--keep");
  return HostsJob(options).run();
}

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
  command->add_option("--hosts", arguments->hosts, "Hosts to spread the PEs over: a,b")
      ->delimiter(',');
  command->add_option("--launcher", arguments->launcher, "How a command is run on another host")
      ->capture_default_str();
  command->add_option("--meet", arguments->meet, "Where PEs meet: host:port (the first host's)");
  command->add_option("--part", arguments->part, "Of a job over several hosts")->group("");
  command->add_option("program", arguments->words, "The program, and its arguments, after --")
      ->required();
  command->positionals_at_end();
  command->footer(kFooter);
  when_chosen(command, exit, [arguments]() -> Result<Exit> {
    TOWPATH_TRY(const int status, run_job(*arguments));
    return static_cast<Exit>(status);
  });
}

}  // namespace towpath::tools
