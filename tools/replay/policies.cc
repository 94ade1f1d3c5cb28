#include "tools/replay/policies.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include <towpath/core/format.h>

#include "tools/output.h"
#include "tools/table.h"
#include "tools/units.h"

namespace towpath::tools::replay {
namespace {

Result<std::vector<traces::Request>> read_requests(const Options& options,
                                                   traces::RequestSource& source) {
  std::vector<traces::Request> requests;
  while (options.limit == 0 || requests.size() < options.limit) {
    TOWPATH_TRY(std::optional<traces::Request> request, source.next());
    if (!request) break;
    requests.push_back(*std::move(request));
  }
  return requests;
}

double share(std::uint64_t hits, const traces::Comparison& of) { return ratio_of(hits, of.uses); }

std::vector<Column> columns() {
  std::vector<Column> made{{"blocks", Align::right}, {"optimum", Align::right}};
  for (const kv::PolicyKind policy : kv::all_policies())
    made.push_back({std::string(name_of(policy)), Align::right});
  for (const kv::PolicyKind policy : traces::kHinted)
    made.push_back({cat(name_of(policy), ", hinted"), Align::right});
  return made;
}

/// A row per capacity; `report` makes a cell's text of a policy's hits.
template <typename Tell>
std::string table_of(const std::vector<traces::Comparison>& all, Colours colours,
                     const Tell& report) {
  Table table(columns());
  for (const traces::Comparison& one : all) {
    std::vector<Cell> cells{grouped(one.slots), percent(share(one.optimum, one))};
    const auto best = std::ranges::max(one.scores, {}, &traces::Score::hits).hits;
    for (const traces::Score& score : one.scores)
      cells.emplace_back(report(score.hits, one), score.hits == best ? Tone::good : Tone::plain);
    for (const traces::Score& score : one.hinted) cells.emplace_back(report(score.hits, one));
    table.add(std::move(cells));
  }
  return table.text(colours);
}

std::string text_of(const std::vector<traces::Comparison>& all, Colours colours) {
  return cat(
      "Hit ratio: blocks found with all blocks before them, of blocks asked for\n",
      table_of(all, colours,
               [](std::uint64_t hits, const traces::Comparison& of) {
                 return percent(share(hits, of));
               }),
      "\nRegret: what the optimum, which knows the future, has more (points)\n",
      table_of(all, colours,
               [](std::uint64_t hits, const traces::Comparison& of) {
                 return percent(share(of.optimum - hits, of));
               }),
      "\nHinted: a hint at the end of each turn whether its session goes on, and nothing else\n");
}

nlohmann::ordered_json json_of(const std::vector<traces::Score>& scores,
                               const traces::Comparison& of) {
  nlohmann::ordered_json policies = nlohmann::ordered_json::object();
  for (const traces::Score& score : scores)
    policies[std::string(name_of(score.policy))] = {{"hits", score.hits},
                                                    {"hit_ratio", share(score.hits, of)},
                                                    {"regret", share(of.optimum - score.hits, of)},
                                                    {"evictions", score.evictions}};
  return policies;
}

nlohmann::ordered_json json_of(const std::vector<traces::Comparison>& all) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const traces::Comparison& one : all) {
    rows.push_back({{"blocks", one.slots},
                    {"block_references", one.uses},
                    {"optimum_hit_ratio", share(one.optimum, one)},
                    {"policies", json_of(one.scores, one)},
                    {"hinted", json_of(one.hinted, one)}});
  }
  return {{"capacities", std::move(rows)}};
}

}  // namespace

Result<std::vector<traces::Comparison>> compare_policies(const Options& options,
                                                         traces::RequestSource& source) {
  TOWPATH_TRY(const std::vector<traces::Request> requests, read_requests(options, source));
  std::vector<traces::Comparison> all;
  for (const std::uint32_t capacity : options.capacities)
    all.push_back(traces::compare(requests, kv::all_policies(), capacity));
  return all;
}

Status report_policies(const Options& options, const std::vector<traces::Comparison>& all) {
  if (!options.json.empty()) TOWPATH_TRY(write_json(options.json, json_of(all)));
  if (options.json == "-") return {};
  TOWPATH_TRY(Output out, Output::open("-"));
  TOWPATH_TRY(out.write(text_of(all, out.is_terminal() ? Colours::yes : Colours::no)));
  return out.close();
}

}  // namespace towpath::tools::replay
