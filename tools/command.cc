#include "tools/command.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <sstream>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <towpath/core/format.h>

#include "tools/output.h"

namespace towpath::tools {

namespace {

/// Letters to insert, delete, replace or swap with their neighbour, to make one word of the other.
std::size_t edits(std::string_view from, std::string_view to) {
  std::vector<std::vector<std::size_t>> least(from.size() + 1,
                                              std::vector<std::size_t>(to.size() + 1));
  for (std::size_t i = 0; i <= from.size(); ++i) {
    for (std::size_t j = 0; j <= to.size(); ++j) {
      if (i == 0 || j == 0) {
        least[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = least[i - 1][j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      least[i][j] = std::min({least[i - 1][j] + 1, least[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  }
  return least[from.size()][to.size()];
}

}  // namespace

Exit exit_of(const Status& status) {
  switch (status.code()) {
    case Code::ok: return Exit::ok;
    case Code::corrupt: return Exit::found_wrong;
    case Code::invalid_argument: return Exit::usage;
    default: return Exit::could_not_run;
  }
}

Status wrong_value(std::string_view flag, const Status& status) {
  return error(Code::invalid_argument, cat(flag, ": ", status.message()),
               std::string(status.hint()));
}

std::string story_of(const Status& status) {
  std::string story(status.message());
  for (Status cause = status.cause(); !cause.ok(); cause = cause.cause())
    story += cat(", because ", cause.message());
  return story;
}

std::string hint_of(const Status& status) {
  Status at = status;
  while (!at.ok() && at.hint().empty()) at = at.cause();
  return std::string(at.hint());
}

void print_failure(std::string_view command, const Status& status) {
  std::string text = cat(command, ": ", status.message(), "\n");
  for (Status cause = status.cause(); !cause.ok(); cause = cause.cause())
    text += cat("  because: ", cause.message(), "\n");
  const std::string hint = hint_of(status);
  if (!hint.empty()) text += cat("  hint:  ", hint, "\n");
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::string nearest_word(std::string_view word, std::span<const std::string> words) {
  const auto near = std::ranges::min_element(
      words, {}, [&](const std::string& each) { return edits(word, each); });
  const std::size_t bound = word.size() / 3 + 1;
  return near != words.end() && edits(word, *near) <= bound ? *near : std::string();
}

namespace {

CLI::Validator whole_number(std::uint64_t least) {
  const auto refuse = [least](const std::string& text) -> std::string {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, failed] = std::from_chars(text.data(), end, number);
    if (failed == std::errc() && rest == end && number >= least) return {};
    return cat("'", printable(text), "' is not a whole number from ", least, " to ", UINT64_MAX);
  };
  return {refuse, "", "whole number"};
}

constexpr double kMostNumber = 1e9;

struct Bounds {
  double least, most;
};

/// In CLI11's ranges is nan, too.
CLI::Validator number_in(Bounds bounds, const std::string& shown) {
  const auto refuse = [bounds](const std::string& text) -> std::string {
    double number = 0;
    if (CLI::detail::lexical_cast(text, number) && number >= bounds.least && number <= bounds.most)
      return {};
    return cat("'", printable(text), "' is not a number from ", bounds.least, " to ", bounds.most);
  };
  return {refuse, shown};
}

std::string whole_name(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* outer = app.get_parent(); outer; outer = outer->get_parent())
    name = cat(outer->get_name(), " ", name);
  return name;
}

/// "towpath: there is no command 'repaly' (hint: did you mean 'replay'?)", when the first word that
/// is no option should be a sub-command and is none; else nothing.
std::string explain_unknown_command(const CLI::App& top, int argc, const char* const* argv) {
  const CLI::App* app = &top;
  for (int i = 1; i < argc && *argv[i] != '-'; ++i) {
    const auto commands = app->get_subcommands(std::function<bool(const CLI::App*)>{});
    if (commands.empty()) return {};
    std::vector<std::string> names;
    for (const CLI::App* command : commands) names.push_back(command->get_name());
    const auto found = std::ranges::find(names, argv[i]);
    if (found == names.end()) {
      const std::string nearest = nearest_word(argv[i], names);
      return cat(whole_name(*app), ": there is no command '", printable(argv[i]), "'",
                 nearest.empty() ? "" : cat(" (hint: did you mean '", nearest, "'?)"));
    }
    app = commands[static_cast<std::size_t>(found - names.begin())];
  }
  return {};
}

/// "towpath bench: there is no option '--op-type' (hint: did you mean '--op_type'?)", of the first
/// that the chosen command has not; else nothing.
std::string explain_unknown_option(const CLI::App& top, int argc, const char* const* argv) {
  const CLI::App* app = &top;
  for (auto chosen = app->get_subcommands(); !chosen.empty(); chosen = app->get_subcommands())
    app = chosen.front();
  std::vector<std::string> names;
  for (const CLI::Option* option : app->get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(cat("--", name));
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word =
        std::string_view(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    if (!word.starts_with("--") || std::ranges::find(names, word) != names.end()) continue;
    const std::string nearest = nearest_word(word, names);
    return cat(whole_name(*app), ": there is no option '", printable(word), "'",
               nearest.empty() ? "" : cat(" (hint: did you mean '", nearest, "'?)"));
  }
  return {};
}

/// Help, or the version.
Exit print_asked(const CLI::App& app, const CLI::ParseError& asked) {
  std::ostringstream text;
  (void)app.exit(asked, text);
  const Status printed = print(text.str());
  if (!printed.ok()) print_failure(app.get_name(), printed);
  return exit_of(printed);
}

}  // namespace

Option Option::required() { return Option(option_->required()); }
Option Option::shows_default() { return Option(option_->capture_default_str()); }
Option Option::takes(const std::string& text) { return Option(option_->option_text(text)); }
Option Option::hidden() { return Option(option_->group("")); }
Option Option::not_with(const std::string& flag) { return Option(option_->excludes(flag)); }
Option Option::only_with(const std::string& flag) { return Option(option_->needs(flag)); }
Option Option::with_commas() { return Option(option_->delimiter(',')->allow_extra_args(false)); }
Option Option::one_each() { return Option(option_->allow_extra_args(false)); }
Option Option::or_environment(const std::string& name) { return Option(option_->envname(name)); }

Option Option::whole(std::uint64_t least) { return Option(option_->check(whole_number(least))); }
Option Option::between(int least, int most) {
  return Option(option_->check(CLI::Range(least, most)));
}
Option Option::between(double least, double most) {
  return Option(
      option_->check(number_in({least, most}, CLI::Range(least, most).get_description())));
}
Option Option::positive() {
  constexpr double kNanosecond = 1e-9;
  return Option(option_->check(number_in({kNanosecond, kMostNumber}, "POSITIVE")));
}
Option Option::not_negative() {
  return Option(option_->check(number_in({0, kMostNumber}, "NONNEGATIVE")));
}
Option Option::one_of(std::initializer_list<std::string> words) {
  return Option(option_->check(CLI::IsMember(std::vector<std::string>(words))));
}

Command Command::add(const std::string& name, const std::string& about) {
  return {app_->add_subcommand(name, about), exit_};
}

template <typename T>
Option Command::option(const std::string& flags, T& value, const std::string& about) {
  return Option(app_->add_option(flags, value, about));
}

Option Command::output(const std::string& flags, std::string& path, const std::string& about) {
  outputs_->push_back(&path);
  return option(flags, path, about).takes("FILE");
}

Option Command::flag(const std::string& flags, bool& value, const std::string& about) {
  if (!flags.starts_with('!')) return Option(app_->add_flag(flags, value, about));
  // CLI11 itself takes "!--quiet" too, and shows it as "--quiet{false}".
  return Option(app_->add_flag_callback(
      flags.substr(1), [&value] { value = false; }, about));
}

void Command::op_type(TransferOp& op) {
  const auto refuse = [](const std::string& text) -> std::string {
    if (transfer_op_from_name(text)) return {};
    return cat("'", printable(text), "' is neither READ nor WRITE");
  };
  const auto take = [&op](const std::string& text) { op = *transfer_op_from_name(text); };
  app_->add_option_function<std::string>("--op_type", take, "READ or WRITE")
      ->check(CLI::Validator(refuse, ""))
      ->default_str(op == TransferOp::read ? "READ" : "WRITE");
}

void Command::footer(const std::string& text) { app_->footer(text); }
void Command::needs_one() { app_->require_subcommand(1); }
void Command::passes_the_rest() { app_->positionals_at_end(); }
void Command::takes_the_last() {
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void Command::when_chosen(std::function<Result<Exit>()> work) {
  const auto begin = [outputs = outputs_, work = std::move(work)]() -> Result<Exit> {
    for (const std::string* path : *outputs) TOWPATH_TRY(Output::check(*path));
    return work();
  };
  app_->final_callback([app = app_, exit = exit_, begin] {
    const Result<Exit> done = begin();
    if (!done.ok()) print_failure(whole_name(*app), done.status());
    *exit = done.ok() ? done.value() : exit_of(done.status());
  });
}

void CommandLine::version(const std::string& text) {
  app_->set_version_flag("--version", text, "Print the version");
}

CommandLine::CommandLine(const std::string& name, const std::string& about)
    : app_(std::make_unique<CLI::App>(about, name)), command_(app_.get(), &exit_) {
  app_->require_subcommand();
  app_->get_formatter()->column_width(34);
}

CommandLine::~CommandLine() = default;

Exit CommandLine::run(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return print_asked(*app_, error);
    std::string mistyped = explain_unknown_command(*app_, argc, argv);
    if (mistyped.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
      mistyped = explain_unknown_option(*app_, argc, argv);
    if (mistyped.empty()) return app_->exit(error), Exit::usage;
    std::fprintf(stderr, "%s\nRun with --help for more information.\n", mistyped.c_str());
    return Exit::usage;
  }
  return exit_;
}

template Option Command::option(const std::string&, std::string&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::uint32_t>&,
                                const std::string&);
template Option Command::option(const std::string&, int&, const std::string&);
template Option Command::option(const std::string&, unsigned&, const std::string&);
template Option Command::option(const std::string&, std::uint64_t&, const std::string&);
template Option Command::option(const std::string&, double&, const std::string&);

}  // namespace towpath::tools
