#include "tools/command.h"

#include <charconv>
#include <cstdio>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <towpath/core/text.h>

#include "tools/output.h"

namespace towpath::tools {

Exit exit_of(const Status& status) {
  switch (status.code()) {
    case Code::ok: return Exit::ok;
    case Code::corrupt: return Exit::found_wrong;
    case Code::invalid_argument: return Exit::usage;
    default: return Exit::could_not_run;
  }
}

std::string story_of(const Status& status) {
  std::string story(status.message());
  for (Status cause = status.cause(); !cause.ok(); cause = cause.cause())
    story += cat(", because ", cause.message());
  return story;
}

std::string remedy_of(const Status& status) {
  Status at = status;
  while (!at.ok() && at.remedy().empty()) at = at.cause();
  return std::string(at.remedy());
}

void print_failure(std::string_view command, const Status& status) {
  std::string text = cat(command, ": ", status.message(), "\n");
  for (Status cause = status.cause(); !cause.ok(); cause = cause.cause())
    text += cat("  because: ", cause.message(), "\n");
  const std::string remedy = remedy_of(status);
  if (!remedy.empty()) text += cat("  remedy:  ", remedy, "\n");
  std::fwrite(text.data(), 1, text.size(), stderr);
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

std::string whole_name(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* outer = app.get_parent(); outer; outer = outer->get_parent())
    name = cat(outer->get_name(), " ", name);
  return name;
}

}  // namespace

Option Option::required() { return Option(option_->required()); }
Option Option::shows_default() { return Option(option_->capture_default_str()); }
Option Option::takes(const std::string& text) { return Option(option_->option_text(text)); }
Option Option::hidden() { return Option(option_->group("")); }
Option Option::not_with(const std::string& flag) { return Option(option_->excludes(flag)); }
Option Option::with_commas() { return Option(option_->delimiter(',')); }
Option Option::one_each() { return Option(option_->allow_extra_args(false)); }
Option Option::or_environment(const std::string& name) { return Option(option_->envname(name)); }

Option Option::whole(std::uint64_t least) { return Option(option_->check(whole_number(least))); }
Option Option::between(int least, int most) {
  return Option(option_->check(CLI::Range(least, most)));
}
Option Option::between(double least, double most) {
  return Option(option_->check(CLI::Range(least, most)));
}
Option Option::positive() { return Option(option_->check(CLI::PositiveNumber)); }
Option Option::not_negative() { return Option(option_->check(CLI::NonNegativeNumber)); }
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

void Command::flag(const std::string& flags, bool& value, const std::string& about) {
  app_->add_flag(flags, value, about);
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
    const bool asked_for_help = app_->exit(error) == 0;
    return asked_for_help ? Exit::ok : Exit::usage;
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
