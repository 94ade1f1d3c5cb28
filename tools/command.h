// How a sub-command of `towpath` is made: a file x.cc with one function add_x(), which gives the
// application a sub-command with options, and the work that runs when it is chosen.
//
//   void add_version(CLI::App& app, Exit& exit) {
//     CLI::App* command = app.add_subcommand("version", "Print the version");
//     when_chosen(command, exit, [] { return Result<Exit>(Exit::ok); });
//   }
//
// What the options fill in lives in a shared_ptr that the work holds: it must outlive parsing.
// Thread: the main one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include <towpath/core/result.h>
#include <towpath/core/transfer_state.h>

namespace towpath::tools {

/// What scripts see. Documented in docs/guides/command.md: never renumber.
enum class Exit : int {
  ok = 0,
  found_wrong = 1,  ///< it ran, and what it looked at is not right
  usage = 2,        ///< the command line makes no sense
  could_not_run = 3,
};

/// corrupt is found_wrong, invalid_argument is usage, all else could_not_run.
Exit exit_of(const Status& status);

/// When `command` is on the command line, `work` runs after parsing. A failure is printed to
/// standard error, with cause and remedy, and sets `exit`.
void when_chosen(CLI::App* command, Exit& exit, std::function<Result<Exit>()> work);

/// Accepts whole numbers from `least` on, in 64 bits. CLI11 alone takes -5 for a number that is
/// very large, and one that is too large for the largest.
CLI::Validator whole_number(std::uint64_t least = 0);

/// `--op_type READ` or `WRITE`, small letters too; without it `op` stays what it is.
void add_op_type(CLI::App* command, TransferOp& op);

/// The failure and its causes, without codes and remedies: "cannot open x, because ...".
std::string story_of(const Status& status);
/// Of the failure, or else of the nearest cause that has one.
std::string remedy_of(const Status& status);
/// Prints to standard error: `command`, the failure, then a line each for its causes and its
/// remedy.
void print_failure(std::string_view command, const Status& status);

void add_replay(CLI::App& app, Exit& exit);
void add_trace(CLI::App& app, Exit& exit);
void add_doctor(CLI::App& app, Exit& exit);
void add_explain(CLI::App& app, Exit& exit);
void add_bench(CLI::App& app, Exit& exit);
void add_flight(CLI::App& app, Exit& exit);
void add_record(CLI::App& app, Exit& exit);
void add_run(CLI::App& app, Exit& exit);
void add_top(CLI::App& app, Exit& exit);
void add_version(CLI::App& app, Exit& exit);

}  // namespace towpath::tools
