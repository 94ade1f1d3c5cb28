#include "tools/replay/plots.h"

#include <algorithm>

#include <fmt/format.h>

#include "tools/units.h"

namespace towpath::tools::replay {
namespace {

double in_seconds(Duration time) { return static_cast<double>(time.count()) / 1e9; }

std::string percent_text(double percent) { return fmt::format("{:.3g} %", percent); }
std::string seconds_text(double time) { return fmt::format("{:.4g} s", time); }
std::string rate_tick(double rate) { return compact_quantity(rate, "B/s"); }

std::string time_tick(double ns) {
  constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  std::size_t unit = 0;
  for (; ns >= 999.5 && unit + 1 < std::size(kUnits); ++unit) ns /= 1000;
  return fmt::format("{:.3g} {}", ns, kUnits[unit]);
}

/// The clocks of two machines differ: each process's time counts from the first that it reports.
Instant start_of_prefill(const ReplayOutcome& outcome) {
  Instant first = Instant::never();
  for (const Timeline* line : {&outcome.produce.bytes_over_time(), &outcome.spill.bytes_over_time(),
                               &outcome.load.bytes_over_time(), &outcome.history.held(Place::host)})
    if (!line->empty()) first = std::min(first, line->start());
  return first;
}

/// A point for the middle of each interval; `y_of(value)` is its height.
template <typename Tell>
std::vector<Point> points_of(const Timeline& line, Instant zero, const Tell& y_of) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < line.values().size(); ++i) {
    const Duration middle = (line.start() - zero) + line.interval() * i + line.interval() / 2;
    points.push_back({in_seconds(middle), y_of(line.values()[i])});
  }
  return points;
}

constexpr std::size_t kMostExtents = 4096;

/// Bytes per second in each extent of `width` from `zero` on.
std::vector<Point> rates_of(const Timeline& line, Instant zero, Duration width) {
  std::vector<std::uint64_t> sums;
  for (std::size_t i = 0; i < line.values().size(); ++i) {
    const Duration at = (line.start() - zero) + line.interval() * i;
    const auto extent = static_cast<std::size_t>(std::max(at, Duration(0)) / width);
    if (extent >= kMostExtents) break;  // of a process that reports nonsense
    if (extent >= sums.size()) sums.resize(extent + 1);
    sums[extent] += line.values()[i];
  }
  std::vector<Point> points;
  for (std::size_t i = 0; i < sums.size(); ++i)
    points.push_back(
        {in_seconds(width * i + width / 2), static_cast<double>(sums[i]) / in_seconds(width)});
  return points;
}

}  // namespace

Plot hit_ratio_plot(std::span<const traces::Comparison> comparisons) {
  Plot plot{.title = "Hit ratio over the size of the cache",
            .x = {.title = "size of the cache, blocks", .scale = Scale::logarithmic},
            .y = {.title = "blocks found", .text = percent_text},
            .dots = true};
  for (const kv::PolicyKind policy : kv::all_policies()) {
    Series series{.name = std::string(name_of(policy))};
    if (policy == kv::PolicyKind::adaptive) series.look = Series::Look::bold;
    for (const traces::Comparison& one : comparisons) {
      const auto score = std::ranges::find(one.scores, policy, &traces::Score::policy);
      if (score != one.scores.end())
        series.points.push_back(
            {static_cast<double>(one.slots), 100 * ratio_of(score->hits, one.uses)});
    }
    plot.series.push_back(std::move(series));
  }
  Series optimum{.name = "optimum", .look = Series::Look::dashed};
  for (const traces::Comparison& one : comparisons)
    optimum.points.push_back(
        {static_cast<double>(one.slots), 100 * ratio_of(one.optimum, one.uses)});
  plot.series.push_back(std::move(optimum));
  return plot;
}

Plot bytes_plot(const Options& options, const ReplayOutcome& outcome) {
  Plot plot{.title = "Bytes per hop over time",
            .x = {.title = "time of the run", .text = seconds_text, .tight = true},
            .y = {.title = "", .text = rate_tick}};
  const Instant prefill = start_of_prefill(outcome);
  Duration width{0};  // the same for all: a hop of few moves would be all peaks in shorter ones
  for (const auto& [name, hop] : hops_of(options, outcome))
    width = std::max(width, hop.bytes_over_time().interval());
  for (const auto& [name, hop] : hops_of(options, outcome)) {
    const Timeline& line = hop.bytes_over_time();
    const Instant zero = &hop == &outcome.pull ? line.start() : prefill;
    plot.series.push_back({.name = name, .points = rates_of(line, zero, width)});
  }
  return plot;
}

Plot latency_plot(const Options& options, const ReplayOutcome& outcome) {
  Plot plot{.title = "How long a move takes",
            .x = {.title = "at most so long", .scale = Scale::logarithmic, .text = time_tick},
            .y = {.title = "share of the moves", .text = percent_text}};
  for (const auto& [name, hop] : hops_of(options, outcome)) {
    Series series{.name = name};
    for (int percent = 0; percent <= 100 && hop.times().count() > 0; ++percent)
      series.points.push_back(
          {static_cast<double>(hop.times().percentile(percent).count()), 1.0 * percent});
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot occupancy_plot(const Options& options, const ReplayOutcome& outcome) {
  Plot plot{.title = options.prefills == 1 ? "How full the tiers of prefill are"
                                           : "How full the tiers of the first prefill are",
            .x = {.title = "time of the run", .text = seconds_text, .tight = true},
            .y = {.title = "of the tier", .text = percent_text}};
  const Instant zero = start_of_prefill(outcome);
  for (const Place tier : kTiers) {
    const std::uint64_t size = blocks_of(options, tier, outcome.block_bytes);
    if (size == 0) continue;
    plot.series.push_back(
        {.name = fmt::format("{}: {}", name_of(tier), grouped(size)),
         .points = points_of(outcome.history.held(tier), zero,
                             [&](std::uint64_t blocks) { return 100 * ratio_of(blocks, size); })});
  }
  return plot;
}

Plot found_plot(const Options& options, const ReplayOutcome& outcome) {
  Plot plot{.title = "Where blocks are found",
            .x = {.title = "time of the run", .text = seconds_text, .tight = true},
            .y = {.title = "of the blocks asked for", .text = percent_text},
            .stacked = true};
  std::vector<const Timeline*> lines;
  for (const Place place : kPlaces) {
    if (!has(options, place)) continue;
    const bool is_found = place != Place::miss;
    plot.series.push_back({.name = std::string(name_of(place)),
                           .look = is_found ? Series::Look::line : Series::Look::faint});
    lines.push_back(&outcome.history.found(place));
  }
  const Instant zero = start_of_prefill(outcome);
  const std::size_t count =
      std::ranges::min(lines, {}, [](const Timeline* line) { return line->values().size(); })
          ->values()
          .size();
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t all = 0;
    for (const Timeline* line : lines) all += line->values()[i];
    if (all == 0) continue;  // nothing was asked for then
    for (std::size_t which = 0; which < lines.size(); ++which) {
      const Timeline& line = *lines[which];
      const Duration middle = (line.start() - zero) + line.interval() * i + line.interval() / 2;
      plot.series[which].points.push_back(
          {in_seconds(middle), 100 * ratio_of(line.values()[i], all)});
    }
  }
  return plot;
}

}  // namespace towpath::tools::replay
