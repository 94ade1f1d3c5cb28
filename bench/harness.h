// The harness: each case is measured beside its reference, in one run, turn by turn.
//
//   Bench bench(options);
//   bench.measure({.title = "pull", .ours = "...", .reference = "..."}, cases);   // prints a table
//   return bench.finish();                                                        // and the JSON
//
// On a machine that others use too, times drift by a factor of two within seconds, and a ratio of
// two medians from two runs says little. So a round takes one sample of ours and one of the
// reference, one right after the other and in changing order, and the ratio is taken per round;
// what is reported is the median over the rounds, and between which values their middle half lies.
//
// A missed aim is reported, not an error: the exit status is about whether it could be measured.
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>

#include "bench/options.h"

namespace towpath::bench {

/// Measures once: nanoseconds (or whatever is counted) per unit of work: per byte, per descriptor.
using Sample = std::function<double()>;

/// How a value is reported.
enum class Shown {
  gigabytes_per_second,  ///< of nanoseconds per byte; 1 GB = 10^9 bytes
  nanoseconds,
  count,
};

struct Aim {
  std::optional<double> ratio_at_least;  ///< reference / ours: times as fast as the reference
  std::optional<double> value_at_most;   ///< of ours
};

/// What the last sample took of the processors: seconds per GiB. Asked right after each.
struct Processors {
  Sample ours;
  Sample reference;
};

struct Case {
  std::string name;
  Shown shown = Shown::nanoseconds;
  Sample ours;
  Sample reference;                ///< empty: none in this run
  std::optional<double> recorded;  ///< instead: a figure that somebody measured elsewhere
  Aim aim;
  std::string command;    ///< of the reference, where each case has its own
  Processors processors;  ///< empty: not reported
};

/// What a table is about: both sides in words.
struct Group {
  std::string title;
  std::string ours;
  std::string reference;
};

/// The median, and between which values the middle half lies: the ends report the neighbours.
struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// `values` is not empty.
Spread spread_of(std::vector<double> values);

/// A case that was measured.
struct Figure {
  Case of;
  Spread ours;
  std::optional<Spread> reference;
  std::optional<Spread> ratio;
  std::optional<Spread> ours_cpu;  ///< seconds per GiB
  std::optional<Spread> reference_cpu;

  /// 1 or more: the aim is met; nothing: there is none.
  std::optional<double> attained() const;
};

struct Table {
  Group group;
  std::vector<Figure> figures;
};

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)) {}

  /// Measures those of `cases` whose "title: name" holds what --only asks for, and prints them.
  void measure(const Group& group, std::vector<Case> cases);
  /// Prints the sum of it and writes what --json asked for. The exit status.
  int finish();

  const Options& options() const noexcept { return options_; }

 private:
  Figure measure_one(Case of) const;

  Options options_;
  std::vector<Table> tables_;
};

/// Does something n times; it takes `units` of work each time.
struct Repeated {
  std::function<void(std::uint64_t times)> body;
  double units = 1;
};

/// Samples `repeated` as often at a time as fills about `at_least` (found out at the first sample).
Sample timed(const Clock& clock, Repeated repeated,
             Duration at_least = std::chrono::microseconds(500));

/// Ends the program: a measurement that fails measures nothing.
[[noreturn]] void fail(const Status& status);
inline void must(const Status& status) {
  if (!status.ok()) fail(status);
}
template <class T>
T must(Result<T> result) {
  if (!result.ok()) fail(result.status());
  return *std::move(result);
}

// table.cc
std::string to_table(const Table& table);
std::string to_json(const std::string& command, const std::vector<Table>& tables);

}  // namespace towpath::bench
