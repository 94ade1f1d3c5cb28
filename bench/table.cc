// Figures as a table for people, worst first, and as JSON for programs.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

double in_unit(Shown shown, double value) {
  return shown == Shown::gigabytes_per_second && value > 0 ? 1 / value : value;
}

/// The same spread in the unit that is shown; a low rate is a long time.
Spread in_unit(Shown shown, const Spread& spread) {
  const bool turned = shown == Shown::gigabytes_per_second;
  return {in_unit(shown, spread.median), in_unit(shown, turned ? spread.high : spread.low),
          in_unit(shown, turned ? spread.low : spread.high)};
}

const char* unit_of(Shown shown) {
  switch (shown) {
    case Shown::gigabytes_per_second: return "GB/s";
    case Shown::nanoseconds: return "ns";
    case Shown::count: return "";
  }
  return "";
}

std::string number(double value) {
  if (value == 0) return "0";
  if (value < 10) return fmt::format("{:.2f}", value);
  return value < 1000 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

std::string text_of(const Spread& spread, const char* unit = "") {
  return fmt::format("{}{}{} ({} .. {})", number(spread.median), *unit != 0 ? " " : "", unit,
                     number(spread.low), number(spread.high));
}

std::string reference_of(const Figure& figure) {
  const Shown shown = figure.of.shown;
  if (figure.reference) return text_of(in_unit(shown, *figure.reference), unit_of(shown));
  if (figure.of.recorded)
    return fmt::format("{} {} recorded", number(in_unit(shown, *figure.of.recorded)),
                       unit_of(shown));
  return "-";
}

std::string aim_of(const Figure& figure) {
  const Aim& aim = figure.of.aim;
  if (aim.ratio_at_least) return fmt::format("ratio >= {}", *aim.ratio_at_least);
  if (aim.value_at_most)
    return fmt::format("<= {}{}{}", *aim.value_at_most, *unit_of(figure.of.shown) ? " " : "",
                       unit_of(figure.of.shown));
  return "-";
}

std::string verdict_of(const Figure& figure) {
  const auto attained = figure.attained();
  if (!attained) return "";
  return *attained >= 1 ? "met" : "MISSED";
}

void put_worst_first(std::vector<Figure>& figures) {
  const auto merit = [](const Figure& figure) { return figure.attained().value_or(1e300); };
  std::ranges::stable_sort(figures, {}, merit);
}

/// "0.35 / 0.33": of ours and of the reference.
std::string processors_of(const Figure& figure) {
  if (!figure.ours_cpu) return "-";
  return number(figure.ours_cpu->median) +
         (figure.reference_cpu ? " / " + number(figure.reference_cpu->median) : "");
}

using Row = std::vector<std::string>;

std::string lay_out(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format(" {:<{}} ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

nlohmann::json json_of(const Spread& spread) {
  return {{"median", spread.median}, {"low", spread.low}, {"high", spread.high}};
}

// Values are nanoseconds (or counts) per unit of work; a ratio is reference / ours.
nlohmann::json json_of(const Figure& figure) {
  nlohmann::json one{{"name", figure.of.name}, {"ours", json_of(figure.ours)}};
  if (figure.reference) one["reference"] = json_of(*figure.reference);
  if (figure.of.recorded) one["recorded"] = *figure.of.recorded;
  if (figure.ratio) one["ratio"] = json_of(*figure.ratio);
  if (figure.ours_cpu) one["ours_cpu_seconds_per_gib"] = json_of(*figure.ours_cpu);
  if (figure.reference_cpu) one["reference_cpu_seconds_per_gib"] = json_of(*figure.reference_cpu);
  if (figure.attained()) one["met"] = *figure.attained() >= 1;
  if (!figure.of.command.empty()) one["reference_command"] = figure.of.command;
  return one;
}

}  // namespace

std::string to_table(const Table& table) {
  std::vector<Figure> figures = table.figures;
  put_worst_first(figures);
  const bool has_cpu = std::ranges::any_of(
      figures, [](const Figure& figure) { return figure.ours_cpu.has_value(); });
  std::vector<Row> rows{{"case", "ours", "reference", "ratio", "aim", ""}};
  if (has_cpu) rows.front().insert(rows.front().begin() + 4, "CPU s/GiB");
  for (const Figure& figure : figures) {
    rows.push_back({figure.of.name,
                    text_of(in_unit(figure.of.shown, figure.ours), unit_of(figure.of.shown)),
                    reference_of(figure), figure.ratio ? text_of(*figure.ratio) : "-",
                    aim_of(figure), verdict_of(figure)});
    if (has_cpu) rows.back().insert(rows.back().begin() + 4, processors_of(figure));
  }
  std::string text = fmt::format("{}\n  ours:      {}\n  reference: {}\n", table.group.title,
                                 table.group.ours, table.group.reference);
  text += lay_out(rows);
  for (const Figure& figure : figures) {
    if (!figure.of.command.empty())
      text += fmt::format("    {}: {}\n", figure.of.name, figure.of.command);
  }
  return text + "\n";
}

std::string to_json(const std::string& command, const std::vector<Table>& tables) {
  nlohmann::json all{{"command", command}, {"tables", nlohmann::json::array()}};
  for (const Table& table : tables) {
    nlohmann::json cases = nlohmann::json::array();
    for (const Figure& figure : table.figures) cases.push_back(json_of(figure));
    all["tables"].push_back({{"title", table.group.title},
                             {"ours", table.group.ours},
                             {"reference", table.group.reference},
                             {"cases", std::move(cases)}});
  }
  return all.dump(1) + "\n";
}

}  // namespace towpath::bench
