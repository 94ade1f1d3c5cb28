// How a sub-command of `towpath` is made: a file x.cc with one function add_x(), which gives it
// options, and the work that runs when it is chosen.
//
//   void add_version(Command& towpath) {
//     Command command = towpath.add("version", "Print the version");
//     command.when_chosen([] { return Result<Exit>(Exit::ok); });
//   }
//
// What the options fill in lives in a shared_ptr that the work holds: it must outlive parsing.
// CLI11 does the parsing, and only command.cc reads its headers: each unit that does takes seven
// seconds to compile. Thread: the main one.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/core/transfer_state.h>

namespace CLI {  // NOLINT: not our name
class App;
class Option;
}  // namespace CLI

namespace towpath::tools {

/// What scripts see. Documented in docs/guides/command.md: never renumber.
enum class Exit : int {
  ok = 0,
  found_wrong = 1,  ///< it ran, and what it examined is not right
  usage = 2,        ///< the command line makes no sense
  could_not_run = 3,
};

/// corrupt is found_wrong, invalid_argument is usage, all else could_not_run.
Exit exit_of(const Status& status);
/// What stands behind `flag` names nothing: invalid_argument, with the words of `status`.
Status wrong_value(std::string_view flag, const Status& status);

/// What an option must be, and how --help shows it. Belongs to its Command.
class Option {
 public:
  Option required();
  Option shows_default();                 ///< what the variable holds now
  Option takes(const std::string& text);  ///< stands in --help where the kind of value would
  Option hidden();                        ///< from --help
  Option not_with(const std::string& flag);
  Option only_with(const std::string& flag);       ///< which is there already, as for not_with()
  Option with_commas();                            ///< several values in one word, and no more
  Option one_each();                               ///< several values: the flag again for each
  Option or_environment(const std::string& name);  ///< where the flag is absent

  /// From `least` on, in 64 bits. CLI11 alone takes -5 for a number that is very large, and one
  /// that is too large for the largest.
  Option whole(std::uint64_t least = 0);
  Option between(int least, int most);
  Option between(double least, double most);
  Option positive();      ///< and at most 1e9, which is 32 years of seconds; nan is no number
  Option not_negative();  ///< the same
  Option one_of(std::initializer_list<std::string> words);

 private:
  friend class Command;
  explicit Option(CLI::Option* option) : option_(option) {}
  CLI::Option* option_;
};

/// `towpath`, or one of its sub-commands.
class Command {
 public:
  Command add(const std::string& name, const std::string& about);
  /// `flags` as in "-n,--pes"; a word without dashes is a place on the line. T is one of those at
  /// the end of command.cc.
  template <typename T>
  Option option(const std::string& flags, T& value, const std::string& about = "");
  /// A file that the command writes; "-" is standard output, and nothing none. One that cannot be
  /// written fails the command before its work begins.
  Option output(const std::string& flags, std::string& path, const std::string& about);
  /// "!--quiet" sets `value` to false.
  Option flag(const std::string& flags, bool& value, const std::string& about);
  /// `--op_type READ` or `WRITE`, small letters too; without it `op` stays what it is.
  void op_type(TransferOp& op);
  void footer(const std::string& text);
  void needs_one();        ///< of its own sub-commands
  void takes_the_last();   ///< of an option that is given twice; before any option
  void passes_the_rest();  ///< what follows the first word without dashes is no option

  /// When it is on the command line, `work` runs after parsing. A failure is printed to standard
  /// error, with cause and hint, and is the exit status.
  void when_chosen(std::function<Result<Exit>()> work);

 private:
  friend class CommandLine;
  Command(CLI::App* app, Exit* exit) : app_(app), exit_(exit) {}
  CLI::App* app_;
  Exit* exit_;
  std::shared_ptr<std::vector<const std::string*>> outputs_ =
      std::make_shared<std::vector<const std::string*>>();  // filled in by parsing
};

/// All of `towpath`'s words.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& about);
  ~CommandLine();
  Command& command() { return command_; }
  /// What `--version` prints.
  void version(const std::string& text);
  /// Parses, runs the work that was chosen, prints help and what makes no sense. Throws what the
  /// work throws.
  Exit run(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
  Exit exit_ = Exit::ok;
  Command command_;
};

/// The one of `words` that was probably meant by `word`; empty when none is near.
std::string nearest_word(std::string_view word, std::span<const std::string> words);

/// The failure and its causes, without codes and hints: "cannot open x, because ...".
std::string story_of(const Status& status);
/// Of the failure, or else of the nearest cause that has one.
std::string hint_of(const Status& status);
/// Prints to standard error: `command`, the failure, then a line each for its causes and its
/// hint.
void print_failure(std::string_view command, const Status& status);

void add_replay(Command& towpath);
void add_trace(Command& towpath);
void add_doctor(Command& towpath);
void add_explain(Command& towpath);
void add_bench(Command& towpath);
void add_flight(Command& towpath);
void add_record(Command& towpath);
void add_run(Command& towpath);
void add_serve(Command& towpath);
void add_top(Command& towpath);
void add_version(Command& towpath);

}  // namespace towpath::tools
