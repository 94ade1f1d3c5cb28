// The `towpath` command: each sub-command is a file of its own (command.h says how).
#include <cstdio>
#include <exception>

#include "tools/command.h"

namespace towpath::tools {
namespace {

constexpr const char* kExamples = R"(Exit status:
  0  all is well
  1  it ran, and found something wrong (a mismatch, a broken trace)
  2  the command line makes no sense
  3  it could not run

Examples:
  towpath doctor                      what this machine can do, and what would help
  towpath explain                     which way bytes would take to another process, and why
  towpath bench                       how fast they get there, with every byte verified
  towpath flight a.4711.flight        what a process did last, also after a crash
  towpath top flights                 what running nodes do, in the terminal
  towpath record flights -o s.csv     write down the transfers of running nodes, for replay
  towpath run -n 4 -- ./program       start the processes of a program with symmetric memory
  towpath serve --memory 64GiB        keep the KV blocks of all engines of this host
  towpath trace generate -o t.jsonl   a trace of KV-cache use, of the published shape
  towpath trace info t.jsonl          what a trace holds
  towpath replay --trace t.jsonl      move that KV cache between two processes)";

Exit run(int argc, char** argv) {
  CommandLine line("towpath",
                   "Moves bytes between levels of memory and processes, and verifies every byte.");
  line.version("towpath " TOWPATH_VERSION);
  Command& towpath = line.command();
  towpath.footer(kExamples);
  add_replay(towpath);
  add_trace(towpath);
  add_doctor(towpath);
  add_explain(towpath);
  add_bench(towpath);
  add_flight(towpath);
  add_record(towpath);
  add_run(towpath);
  add_serve(towpath);
  add_top(towpath);
  add_version(towpath);
  return line.run(argc, argv);
}

}  // namespace
}  // namespace towpath::tools

int main(int argc, char** argv) {
  using towpath::tools::Exit;
  Exit exit = Exit::could_not_run;
  try {
    exit = towpath::tools::run(argc, argv);
  } catch (const std::exception& error) {  // of the parts from outside; ours are values
    std::fprintf(stderr, "towpath: %s\n", error.what());
  }
  return static_cast<int>(exit);
}
