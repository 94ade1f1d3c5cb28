#include "bench/options.h"

#include <CLI/CLI.hpp>

namespace towpath::bench {

int Options::rounds_or(int quick, int usual, int full) const {
  if (rounds > 0) return rounds;
  return effort == Effort::quick ? quick : effort == Effort::full ? full : usual;
}

std::optional<Options> parse(const std::string& about, Arguments arguments, int& status,
                             const std::vector<TextOption>& more) {
  Options options;
  for (int i = 0; i < arguments.count; ++i)
    options.command.append(i > 0 ? " " : "").append(arguments.values[i]);
  CLI::App app(about);
  bool quick = false;
  bool full = false;
  auto* quickly = app.add_flag("--quick", quick, "few rounds, small cases: does it run at all?");
  app.add_flag("--full", full, "many rounds, every case")->excludes(quickly);
  app.add_option("--rounds", options.rounds, "samples of each case and of its reference")
      ->check(CLI::Range(1, 1000));
  app.add_option("--only", options.only, "only cases with this in \"title: name\"");
  app.add_option("--json", options.json, "also write the figures to this file");
  for (const TextOption& option : more)
    app.add_option(option.flag, *option.value, option.help)->capture_default_str();
  try {
    app.parse(arguments.count, arguments.values);
  } catch (const CLI::ParseError& wrong) {
    status = app.exit(wrong);
    return std::nullopt;
  }
  if (quick || full) options.effort = quick ? Effort::quick : Effort::full;
  return options;
}

}  // namespace towpath::bench
