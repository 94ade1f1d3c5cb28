#include "tools/replay/report.h"

#include <nlohmann/json.hpp>

#include <towpath/core/format.h>

#include "tools/units.h"

namespace towpath::tools::replay {
namespace {

std::string totals(const Options& options, const ReplayOutcome& outcome, Colours colours) {
  Table table({{""}, {"", Align::right}, {""}});
  table.add({"requests", grouped(outcome.requests),
             cat(options.model, " at 1/", options.scale, ": blocks of ",
                 format_bytes(outcome.block_bytes))});
  table.add(
      {"blocks", grouped(outcome.blocks), cat("in ", duration_text(duration_of(outcome.seconds)))});
  if (options.prefills + options.decodes > 2)
    table.add({"processes", grouped(options.prefills + options.decodes),
               cat(options.prefills, " prefill, ", options.decodes, " decode")});
  if (outcome.prefills_lost > 0)
    table.add({"died",
               {grouped(outcome.prefills_lost), Tone::warning},
               cat("prefill; ", grouped(outcome.asked_again), " requests were asked of another")});
  add_proof(table, {.verified = outcome.verified,
                    .of = outcome.blocks,
                    .mismatches = outcome.mismatches,
                    .what = "every byte, and the digest"});
  return table.text(colours);
}

std::string found_text(const Options& options, const ReplayOutcome& outcome, Colours colours) {
  Table table(
      {{"found in"}, {"blocks", Align::right}, {"share", Align::right}, {"size of the tier"}});
  for (const FoundRow& row : found_rows(options, outcome))
    table.add({std::string(row.place), grouped(row.blocks), row.share, row.size});
  return table.text(colours);
}

std::string hops_text(const Options& options, const ReplayOutcome& outcome, Colours colours) {
  Table table = moves_table("hop");
  for (const auto& [name, hop] : hops_of(options, outcome))
    add_hop(table, name, hop, duration_of(outcome.seconds));
  return table.text(colours);
}

nlohmann::ordered_json found_json(const ReplayOutcome& outcome) {
  nlohmann::ordered_json all;
  for (const Place tier : kTiers) all[std::string(name_of(tier))] = outcome.found[tier];
  all["none"] = outcome.found[Place::miss];
  return all;
}

nlohmann::ordered_json hops_json(const Options& options, const ReplayOutcome& outcome) {
  nlohmann::ordered_json all;
  for (const auto& [name, hop] : hops_of(options, outcome))
    all[name] = hop_json(hop, duration_of(outcome.seconds));
  return all;
}

std::string injected_text(const Options& options, const ReplayOutcome& outcome, Colours colours) {
  Table table({{"fault"},
               {"injected", Align::right},
               {"detected", Align::right},
               {"gone before detection", Align::right}});
  for (const Mistake mistake : all_mistakes()) {
    const Tally& one = outcome.injected.of(mistake);
    if (one == Tally()) continue;
    table.add({std::string(name_of(mistake)),
               grouped(one.made),
               {grouped(one.found), one.found + one.gone == one.made ? Tone::good : Tone::bad},
               grouped(one.gone)});
  }
  return cat("  random faults, on ", percent(options.faults), " of the occasions, --seed ",
             options.generator.seed, "\n", table.text(colours));
}

nlohmann::ordered_json injected_json(const Account& injected) {
  nlohmann::ordered_json all = nlohmann::json::array();
  for (const Mistake mistake : all_mistakes()) {
    const Tally& one = injected.of(mistake);
    if (one == Tally()) continue;
    all.push_back(
        {{"name", name_of(mistake)}, {"made", one.made}, {"gone", one.gone}, {"found", one.found}});
  }
  return all;
}

}  // namespace

void add_proof(Table& table, const Proof& proof) {
  table.add({"verified",
             {grouped(proof.verified), proof.verified == proof.of ? Tone::good : Tone::bad},
             proof.what});
  table.add(
      {"mismatches", {grouped(proof.mismatches), proof.mismatches == 0 ? Tone::good : Tone::bad}});
}

Table moves_table(const char* first) {
  return Table({{first},
                {"bytes", Align::right},
                {"while moving", Align::right},
                {"whole run", Align::right},
                {"moves", Align::right},
                {"p50", Align::right},
                {"p90", Align::right},
                {"p99", Align::right}});
}

std::vector<Cell> with_times(std::vector<Cell> cells, const Spread& times) {
  for (const double share : {50.0, 90.0, 99.0})
    cells.emplace_back(times.count() > 0 ? duration_text(times.percentile(share)) : "-");
  return cells;
}

void add_hop(Table& table, const char* name, const Hop& hop, Duration run) {
  const Spread& times = hop.times();
  table.add(with_times({name, size_text(hop.bytes()), rate_text(hop.bytes(), times.sum()),
                        rate_text(hop.bytes(), run), grouped(times.count())},
                       times));
  if (!hop.path().empty()) table.note(hop.path());
}

std::string verdict_text(const Faults& faults, const char* right, Colours colours) {
  if (faults.none()) return cat("  ", painted("PASSED", Tone::good, colours), ": ", right, "\n");
  std::string text;
  for (const auto& [name, entry] : faults.by_name()) {
    text.append(
        cat("  ", painted("FAILED", Tone::bad, colours), " ", name, ", ", grouped(entry.count),
            entry.count == 1 ? " time: " : " times; first: ", printable(entry.first, 2000), "\n"));
  }
  return text;
}

nlohmann::ordered_json faults_json(const Faults& faults) {
  nlohmann::ordered_json all = nlohmann::json::array();
  for (const auto& [name, entry] : faults.by_name())
    all.push_back({{"name", name}, {"count", entry.count}, {"first", entry.first}});
  return all;
}

nlohmann::ordered_json spread_json(const Spread& times) {
  return {{"p50_ns", times.percentile(50).count()},
          {"p90_ns", times.percentile(90).count()},
          {"p99_ns", times.percentile(99).count()}};
}

nlohmann::ordered_json hop_json(const Hop& hop, Duration run) {
  const double nanoseconds = static_cast<double>(run.count());
  nlohmann::ordered_json out{{"bytes", hop.bytes()},
                             {"busy_ns", hop.times().sum().count()},
                             {"gigabytes_per_second", hop.gigabytes_per_second()},
                             {"gigabytes_per_second_of_run",
                              nanoseconds > 0 ? static_cast<double>(hop.bytes()) / nanoseconds : 0},
                             {"moves", hop.times().count()}};
  out.update(spread_json(hop.times()));
  out["path"] = hop.path();
  return out;
}

std::string report_text(const Options& options, const ReplayOutcome& outcome, Colours colours) {
  std::string text =
      cat("\n", totals(options, outcome, colours), "\n", found_text(options, outcome, colours),
          "\n", hops_text(options, outcome, colours), "\n");
  text.append(cat("  the kernel counted ", size_text(outcome.kernel_read), " read and ",
                  size_text(outcome.kernel_written), " written by prefill\n"));
  if (options.faults == 0)
    return text + verdict_text(outcome.faults, "every block is what its digest says", colours);
  return cat(text, "\n", injected_text(options, outcome, colours), "\n",
             verdict_text(outcome.faults,
                          "every fault was detected, and all other blocks are what they should be",
                          colours));
}

nlohmann::ordered_json report_json(const Options& options, const ReplayOutcome& outcome) {
  return {
      {"passed", outcome.faults.none()},
      {"requests", outcome.requests},
      {"blocks", outcome.blocks},
      {"block_bytes", outcome.block_bytes},
      {"verified", outcome.verified},
      {"mismatches", outcome.mismatches},
      {"seconds", outcome.seconds},
      {"verify_ns", outcome.verify_ns},
      {"prefills", options.prefills},
      {"decodes", options.decodes},
      {"prefills_lost", outcome.prefills_lost},
      {"asked_again", outcome.asked_again},
      {"model", options.model},
      {"scale", options.scale},
      {"hits", found_json(outcome)},
      {"bad_loads", outcome.bad_loads},
      {"failed_leases", outcome.failed_leases},
      {"hops", hops_json(options, outcome)},
      {"disk", {{"direct", outcome.direct}, {"direct_refusal", outcome.direct_refusal}}},
      {"kernel", {{"read_bytes", outcome.kernel_read}, {"written_bytes", outcome.kernel_written}}},
      {"seed", options.generator.seed},
      {"injected", injected_json(outcome.injected)},
      {"faults", faults_json(outcome.faults)}};
}

}  // namespace towpath::tools::replay
