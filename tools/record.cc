// `towpath record`: writes down the transfers of running nodes, from the flight recorders that they
// write. Nothing is asked of the nodes themselves, and nothing is slowed.
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include <poll.h>

#include <towpath/core/format.h>
#include <towpath/run/deadline.h>
#include <towpath/sys/clock.h>

#include "tools/command.h"
#include "tools/flight_read.h"
#include "tools/output.h"
#include "tools/record/flight_tail.h"
#include "tools/run/signals.h"
#include "tools/units.h"

namespace towpath::tools {
namespace {

constexpr const char* kFooter =
    R"(A node writes a flight recorder with NIXL_TELEMETRY_ENABLE=1 where NIXL_TELEMETRY_DIR says, or where
its own code does. All transfers that the recorders still hold are taken, and then every new one,
until no node runs any more, --seconds have passed or Ctrl-C comes: moments, sizes, numbers of
pieces, and how long each took; no payload.
A recorder is a ring of NIXL_TELEMETRY_BUFFER_SIZE records (4096): what is overwritten between two
looks is missed, and reported.

Exit status: 0 all is there; 1 some were missed, or a file is no flight recorder; 3 there is none.

Examples:
  towpath record flights -o stream.csv
  towpath record flights -o stream.csv --seconds 60 --interval 0.02
  towpath record flights/decode-0.4711.flight --once     what a process that crashed did last
  towpath replay --trace stream.csv                      repeat it)";

/// So long a recorder that cannot be read may be half made still.
constexpr Duration kMaking = std::chrono::seconds(5);

struct RecordOptions {
  std::vector<std::string> places;
  std::string output = "-";
  double seconds = 0;  ///< 0: until no node runs
  double interval_s = 0.1;
  bool once = false;
};

class Recorder {
 public:
  explicit Recorder(const RecordOptions& options) : options_(options) {}

  Result<Exit> run() {
    TOWPATH_TRY(const sys::Fd signals, watch_ending_signals());
    const sys::SystemClock clock;
    const Instant began = clock.now();
    const run::Deadline until =
        options_.seconds == 0
            ? run::Deadline::never()
            : run::Deadline::after(clock,
                                   Duration(static_cast<std::int64_t>(options_.seconds * 1e9)));
    const Duration interval(static_cast<std::int64_t>(options_.interval_s * 1e9));
    while (true) {
      TOWPATH_TRY(const bool any_runs, look());
      const bool waits = !out_ && clock.now() < began + kMaking;
      if (options_.once || !(any_runs || waits) || until.expired(clock)) break;
      pollfd wake{.fd = signals.get(), .events = POLLIN, .revents = 0};
      const Duration pause = std::min(interval, until.remaining(clock));
      poll(&wake, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(pause).count()));
      if (take_signal(signals) != 0) {
        TOWPATH_TRY(look());
        break;
      }
    }
    return finish(clock.now() - began);
  }

 private:
  struct Seen {
    std::string path;
    bool lived = false;  ///< its writer; asked before: what it does last is in `log` then
    telemetry::FlightLog log;
  };

  /// Whether a node runs: its agent was not closed, and its writer lives.
  Result<bool> look() {
    TOWPATH_TRY(const std::vector<RecorderFile> files, recorders_in(options_.places));
    std::vector<Seen> seen;
    for (const RecorderFile& file : files) {
      const bool lived = writer_lives(file);
      auto log = read_flight_file(file);
      if (!log.ok() && file.named) return log.status();
      if (log.ok()) seen.push_back({.path = file.path, .lived = lived, .log = *std::move(log)});
    }
    if (!out_ && !seen.empty()) TOWPATH_TRY(begin(beginning_of(seen)));
    bool any_runs = false;
    for (const auto& [path, lived, log] : seen) {
      FlightTail& tail = tails_.try_emplace(path, node_name_of(path), began_).first->second;
      TOWPATH_TRY(write(tail.take(log)));
      any_runs = any_runs || (lived && !tail.closed());
    }
    if (out_) TOWPATH_TRY(out_->flush());
    return any_runs;
  }

  /// Only now that there is something to record is the file cut, which may hold a recording.
  Status begin(Duration since_epoch) {
    began_ = since_epoch;
    TOWPATH_TRY(out_, Output::open(options_.output));
    return out_->write(cat(kRecordingTitles, "\n"));
  }

  static Duration beginning_of(const std::vector<Seen>& seen) {
    Duration first = Duration::max();
    for (const auto& [path, lived, log] : seen)
      first = std::min(first, log.records.empty() ? log.started_since_epoch
                                                  : log.since_epoch(log.records.front().at));
    return first;
  }

  Status write(const std::vector<RecordedTransfer>& transfers) {
    for (const RecordedTransfer& transfer : transfers) {
      TOWPATH_TRY(out_->write(format_recorded(transfer) + "\n"));
      ++written_;
    }
    return {};
  }

  Result<Exit> finish(Duration took) {
    if (!out_) return no_recorder_at(options_.places.front());  // all were half made
    std::uint64_t missed = 0;
    for (const auto& [path, tail] : tails_) {
      TOWPATH_TRY(write(tail.rest()));
      missed += tail.missed();
    }
    TOWPATH_TRY(out_->close());
    std::fprintf(stderr, "  %s transfers of %zu nodes in %s\n", grouped(written_).c_str(),
                 tails_.size(), duration_text(took).c_str());
    if (missed == 0) return Exit::ok;
    std::fprintf(
        stderr,
        "  %s records were overwritten between two looks: transfers are missing\n"
        "  hint:  a smaller --interval, or NIXL_TELEMETRY_BUFFER_SIZE=65536 for the node\n",
        grouped(missed).c_str());
    return Exit::found_wrong;
  }

  const RecordOptions& options_;
  std::optional<Output> out_;                // from the first recorder on
  std::map<std::string, FlightTail> tails_;  // by path
  Duration began_{0};                        // since the epoch
  std::uint64_t written_ = 0;
};

}  // namespace

void add_record(Command& towpath) {
  Command command = towpath.add("record", "Write down the transfers of running nodes, for replay");
  const auto options = std::make_shared<RecordOptions>();
  command.option("place", options->places, "Flight recorders, or directories of them")
      .required()
      .takes(" ");
  command.output("-o,--output", options->output, "File to write; - is standard output")
      .takes("FILE [-]");
  command.option("--seconds", options->seconds, "Stop then; 0: when no node runs any more")
      .not_negative()
      .takes("S [0]");
  command.option("--interval", options->interval_s, "Seconds between two looks")
      .between(0.001, 3600.0)
      .takes("S [0.1]");
  command.flag("--once", options->once, "Only what the recorders hold now");
  command.footer(kFooter);
  command.when_chosen([options]() -> Result<Exit> { return Recorder(*options).run(); });
}

}  // namespace towpath::tools
