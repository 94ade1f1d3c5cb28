// `towpath run`: starts the processes of a program with symmetric memory, and sees them end.
#include <memory>

#include <towpath/core/format.h>
#include <towpath/standard/shmem_environment.h>

#include "tools/command.h"
#include "tools/run/hosts_job.h"
#include "tools/run/job.h"

namespace towpath::tools {
namespace {

constexpr const char* kFooter =
    R"(The processes (PEs) find their job in TOWPATH_SHMEM_PE and TOWPATH_SHMEM_JOB, and share nothing
that has a name: nothing is left behind, however they end. A PE that fails is reported to the others
at once; those that have not ended after the grace time are ended.

Exit status: that of the first PE that failed, 128 and the number of the signal that ended it; 0
when none failed; 2 the command line makes no sense; 3 the program cannot be run.

Examples:
  towpath run -n 4 -- ./program arguments
  towpath run -n 2 --prefix --heap 1G -- ./program
  towpath run --hosts left,right -n 4 -- ./program arguments

With --hosts the PEs are spread evenly, in order, and this program runs on each host by --launcher,
in the same directory; {command} is one word, a shell's line. It must be there under the same
path. What goes between hosts is encrypted with --security tls. Without it, who is on the network
between them can read it, and alter the bytes of puts and gets.)";

struct Arguments {
  JobOptions job;
  std::vector<std::string> hosts;
  std::string launcher = "ssh {host} {command}";
};

Result<int> run_job(const Arguments& arguments) {
  const JobOptions& job = arguments.job;
  if (arguments.hosts.empty() && job.part.empty() && !job.meet.empty())
    return error(Code::invalid_argument, "--meet is where PEs of several hosts meet",
                 "name the hosts with --hosts, or leave it out");
  if (arguments.hosts.empty()) return Job(job).run();
  HostsOptions options{.hosts = arguments.hosts,
                       .pes = job.pes,
                       .launcher = arguments.launcher,
                       .meet = job.meet,
                       .passed = {"--heap", job.heap, "--grace", cat(job.grace_s),
                                  "--start-timeout", cat(job.start_s)},
                       .words = job.words,
                       .grace_s = job.grace_s,
                       .keep = job.keep};
  options.passed.insert(options.passed.end(), {"--huge-pages", job.huge_pages});
  std::string nodes;
  for (const unsigned node : job.nodes) nodes += cat(nodes.empty() ? "" : ",", node);
  if (!nodes.empty()) options.passed.insert(options.passed.end(), {"--numa", nodes});
  // Ssh does not hand on the environment: a wish to encrypt must not get lost on the way.
  for (const auto& [option, value] :
       {std::pair("--network", &job.network), std::pair("--security", &job.security)})
    if (!value->empty()) options.passed.insert(options.passed.end(), {option, *value});
  if (job.prefix) options.passed.emplace_back("--prefix");
  if (job.keep) options.passed.emplace_back("--keep");
  return HostsJob(options).run();
}

}  // namespace

void add_run(Command& towpath) {
  Command command = towpath.add("run", "Start the processes of a program with symmetric memory");
  auto arguments = std::make_shared<Arguments>();
  JobOptions& job = arguments->job;
  command.option("-n,--pes", job.pes, "Processes (PEs) to start")
      .required()
      .between(1, static_cast<int>(shmem::kMaxPes));
  command.option("--heap", job.heap, "Symmetric heap of each PE")
      .or_environment(standard::heap_variable(standard::read_environment()))
      .shows_default();
  command
      .option("--huge-pages", job.huge_pages,
              "Huge pages: best_effort takes transparent, required reserved ones")
      .or_environment("TOWPATH_SHMEM_HUGE_PAGES")
      .one_of({"off", "best_effort", "required"});
  command.option("--numa", job.nodes, "NUMA nodes for the heaps, by turns: 0,1")
      .with_commas()
      .takes("N,N");
  command.flag("--prefix", job.prefix, "Begin each line of output with its PE");
  command.flag("--keep", job.keep, "Let the others go on when a PE fails");
  command.option("--grace", job.grace_s, "Seconds the others have when a PE fails").shows_default();
  command.option("--start-timeout", job.start_s, "Seconds in which all PEs must begin")
      .shows_default();
  command.option("--hosts", arguments->hosts, "Hosts to spread the PEs over: a,b")
      .with_commas()
      .takes("A,B");
  command.option("--launcher", arguments->launcher, "How a command is run on another host")
      .shows_default();
  command.option("--network", job.network, "What carries bytes between hosts: tcp, ucx")
      .or_environment("TOWPATH_SHMEM_NETWORK")
      .one_of({"tcp", "ucx"});
  command
      .option("--security", job.security,
              "Between hosts: tls encrypts all, authenticated proves the PEs")
      .or_environment("TOWPATH_SECURITY")
      .one_of({"authenticated", "tls"});
  command.option("--meet", job.meet, "Where PEs meet: host:port (the first host's)");
  command.option("--part", job.part, "Of a job over several hosts").hidden();
  command.option("program", job.words, "The program, and its arguments, after --").required();
  command.passes_the_rest();
  command.footer(kFooter);
  command.when_chosen([arguments]() -> Result<Exit> {
    TOWPATH_TRY(const int status, run_job(*arguments));
    return static_cast<Exit>(status);
  });
}

}  // namespace towpath::tools
