#include "tools/command.h"

#include <charconv>
#include <cstdio>
#include <utility>

#include <towpath/core/text.h>

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

void add_op_type(CLI::App* command, TransferOp& op) {
  const auto refuse = [](const std::string& text) -> std::string {
    if (transfer_op_from_name(text)) return {};
    return cat("'", printable(text), "' is neither READ nor WRITE");
  };
  const auto take = [&op](const std::string& text) { op = *transfer_op_from_name(text); };
  command->add_option_function<std::string>("--op_type", take, "READ or WRITE")
      ->check(CLI::Validator(refuse, ""))
      ->default_str(op == TransferOp::read ? "READ" : "WRITE");
}

void when_chosen(CLI::App* command, Exit& exit, std::function<Result<Exit>()> work) {
  command->final_callback([command, &exit, work = std::move(work)] {
    const Result<Exit> done = work();
    if (done.ok()) {
      exit = done.value();
      return;
    }
    std::string name = command->get_name();
    for (const CLI::App* outer = command->get_parent(); outer; outer = outer->get_parent())
      name = cat(outer->get_name(), " ", name);
    print_failure(name, done.status());
    exit = exit_of(done.status());
  });
}

}  // namespace towpath::tools
