// The `towpath` command: each sub-command is a file of its own (command.h says how).
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "tools/command.h"

namespace {

constexpr const char* kExamples = R"(Exit status:
  0  all is well
  1  it ran, and found something wrong (a mismatch, a broken trace)
  2  the command line makes no sense
  3  it could not run

Examples:
  towpath doctor                      what this machine can do, and what would help
  towpath explain                     which way bytes would take to another process, and why
  towpath bench                       how fast they get there, with every byte looked at
  towpath flight a.4711.flight        what a process did last, also after a crash
  towpath top flights                 what running nodes do, in the terminal
  towpath record flights -o s.csv     write down the transfers of running nodes, for replay
  towpath run -n 4 -- ./program       start the processes of a program with symmetric memory
  towpath trace generate -o t.jsonl   a trace of KV-cache use, of the published shape
  towpath trace info t.jsonl          what a trace holds
  towpath replay --trace t.jsonl      move that KV cache between two processes)";

int run(int argc, char** argv) {
  using namespace towpath::tools;
  Exit exit = Exit::ok;
  CLI::App app("Moves bytes between levels of memory and processes, and never lies about it.",
               "towpath");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(kExamples);
  add_replay(app, exit);
  add_trace(app, exit);
  add_doctor(app, exit);
  add_explain(app, exit);
  add_bench(app, exit);
  add_flight(app, exit);
  add_record(app, exit);
  add_run(app, exit);
  add_top(app, exit);
  add_version(app, exit);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked_for_help = app.exit(error) == 0;
    return static_cast<int>(asked_for_help ? Exit::ok : Exit::usage);
  }
  return static_cast<int>(exit);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {  // of the parts from outside; ours are values
    std::fprintf(stderr, "towpath: %s\n", error.what());
    return static_cast<int>(towpath::tools::Exit::could_not_run);
  }
}
