#include "bench/harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/file.h>

namespace towpath::bench {
namespace {

// An aim of 0 cannot be divided by: it is met or missed.
double attained_at_most(double value, double most) {
  if (value <= most) return value > 0 ? most / value : 1;
  return most / value;
}

void write_json(const std::string& path, const std::string& text) {
  sys::SystemFileSystem files;
  auto file = must(files.open(path, {.writable = true, .create = true, .truncate = true}));
  must(sys::write_exactly(*file, as_bytes(text), 0));
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t last = values.size() - 1;
  return {(values[last / 2] + values[(last + 1) / 2]) / 2, values[last / 4],
          values[last - last / 4]};
}

std::optional<double> Figure::attained() const {
  if (of.aim.ratio_at_least && ratio) return ratio->median / *of.aim.ratio_at_least;
  if (of.aim.value_at_most) return attained_at_most(ours.median, *of.aim.value_at_most);
  return std::nullopt;
}

namespace {

/// Samples of one side, with what they took of the processors.
class Side {
 public:
  Side(const Sample& sample, const Sample& cpu) : sample_(sample), cpu_(cpu) {}

  void warm() const {
    if (sample_) (void)sample_();  // finds its pace and warms the caches
  }
  void take() {
    if (!sample_) return;
    values_.push_back(sample_());
    if (cpu_) seconds_.push_back(cpu_());
  }
  double last() const { return values_.empty() ? 0 : values_.back(); }
  std::optional<Spread> values() const { return spread(values_); }
  std::optional<Spread> seconds() const { return spread(seconds_); }

 private:
  static std::optional<Spread> spread(const std::vector<double>& values) {
    return values.empty() ? std::nullopt : std::optional(spread_of(values));
  }

  const Sample& sample_;
  const Sample& cpu_;
  std::vector<double> values_;
  std::vector<double> seconds_;
};

}  // namespace

Figure Bench::measure_one(Case of) const {
  Side ours(of.ours, of.processors.ours);
  Side reference(of.reference, of.processors.reference);
  std::vector<double> ratios;
  ours.warm();
  reference.warm();
  const int rounds = options_.rounds_or(7, 31, 101);
  for (int round = 0; round < rounds; ++round) {
    const bool ours_first = round % 2 == 0;
    if (ours_first) ours.take();
    reference.take();
    if (!ours_first) ours.take();
    const double against = of.reference ? reference.last() : of.recorded.value_or(0);
    if (against > 0 && ours.last() > 0) ratios.push_back(against / ours.last());
  }
  Figure figure{.ours = *ours.values(),
                .reference = reference.values(),
                .ours_cpu = ours.seconds(),
                .reference_cpu = reference.seconds()};
  if (!ratios.empty()) figure.ratio = spread_of(std::move(ratios));
  figure.of = std::move(of);  // last: the sides look at its samples
  return figure;
}

void Bench::measure(const Group& group, std::vector<Case> cases) {
  const bool is_watched = ::isatty(STDERR_FILENO) == 1;
  Table table{group, {}};
  for (Case& one : cases) {
    const std::string name = cat(group.title, ": ", one.name);
    if (name.find(options_.only) == std::string::npos) continue;
    if (is_watched) std::fprintf(stderr, "\r\033[K%s", name.c_str());
    table.figures.push_back(measure_one(std::move(one)));
  }
  if (is_watched) std::fputs("\r\033[K", stderr);
  if (table.figures.empty()) return;
  std::fputs(to_table(table).c_str(), stdout);
  std::fflush(stdout);
  tables_.push_back(std::move(table));
}

int Bench::finish() {
  int met = 0;
  int aims = 0;
  for (const Table& table : tables_) {
    for (const Figure& figure : table.figures) {
      const auto attained = figure.attained();
      aims += attained ? 1 : 0;
      met += attained && *attained >= 1 ? 1 : 0;
    }
  }
  std::printf("%s: %d of %d aims met\n\n", options_.command.c_str(), met, aims);
  if (!options_.json.empty()) write_json(options_.json, to_json(options_.command, tables_));
  return 0;
}

Sample timed(const Clock& clock, Repeated repeated, Duration at_least) {
  const auto times = std::make_shared<std::uint64_t>(0);
  return [&clock, repeated = std::move(repeated), at_least, times] {
    const auto measure = [&](std::uint64_t n) {
      const Instant start = clock.now();
      repeated.body(n);
      return clock.now() - start;
    };
    for (*times = std::max<std::uint64_t>(*times, 1); *times < (std::uint64_t{1} << 40U);) {
      const Duration took = measure(*times);
      // Close enough counts: only the first sample looks for its pace.
      if (took * 2 >= at_least)
        return static_cast<double>(took.count()) / (static_cast<double>(*times) * repeated.units);
      *times *= 2;
    }
    return 0.0;
  };
}

void fail(const Status& status) {
  std::fprintf(stderr, "\ncannot measure: %s\n", status.to_string().c_str());
  std::exit(1);
}

}  // namespace towpath::bench
