// Reading and writing a file, against fio on the same file with the same flags.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/sys/temporary_directory.h>

#include "bench/disk_lanes.h"
#include "bench/fio.h"
#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr double kAim = 0.97;

struct Settings {
  std::vector<std::uint64_t> blocks;
  std::vector<std::uint64_t> depths;
  Duration time{0};
};

Settings settings_of(Effort effort) {
  using std::chrono::milliseconds;
  switch (effort) {
    case Effort::quick: return {{4 * kKiB, kMiB}, {1, 16}, milliseconds(100)};
    case Effort::usual: return {{4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB}, {1, 16}, milliseconds(150)};
    case Effort::full:
      return {{4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB},
              {1, 4, 16, 64},
              milliseconds(500)};
  }
  return {};
}

const char* name_of_cache(bool direct) { return direct ? "O_DIRECT" : "page cache"; }

/// For what is reported beside the speed.
struct LastSamples {
  DiskFigure ours;
  DiskFigure fios;
};

Case disk_case(DiskLanes& lanes, const DiskLoad& load, bool has_fio) {
  const bool dirties = !load.direct && load.op == TransferOp::write;
  const std::string command = fio_command(lanes.file(), load);
  const auto last = std::make_shared<LastSamples>();
  Case made{.name = cat(format_bytes(load.block_bytes), ", depth ", load.depth),
            .shown = Shown::gigabytes_per_second,
            .ours =
                [&lanes, load, dirties, last] {
                  if (dirties) lanes.settle();
                  last->ours = lanes.run(load);
                  return last->ours.nanoseconds_per_byte;
                },
            .processors = {.ours = [last] { return last->ours.cpu_seconds_per_gib; }}};
  if (!has_fio) return made;
  made.command = command;
  made.aim.ratio_at_least = kAim;
  made.processors.reference = [last] { return last->fios.cpu_seconds_per_gib; };
  made.reference = [&lanes, command, load, dirties, last] {
    if (dirties) lanes.settle();
    last->fios = must(run_fio(command, load.op));
    return last->fios.nanoseconds_per_byte;
  };
  return made;
}

struct Kind {
  TransferOp op = TransferOp::read;
  bool direct = true;
};

void measure_kind(Bench& bench, DiskLanes& lanes, const Kind& kind, const Status& fio) {
  const Settings settings = settings_of(bench.options().effort);
  const bool registered = lanes.registers();
  std::vector<Case> cases;
  for (const std::uint64_t block : settings.blocks) {
    std::uint64_t last = 0;
    for (std::uint64_t depth : settings.depths) {
      depth = std::min(depth, kLaneMemory / block);
      if (std::exchange(last, depth) == depth) continue;
      const DiskLoad load{.op = kind.op,
                          .block_bytes = block,
                          .depth = depth,
                          .direct = kind.direct,
                          .registered = registered,
                          .time = settings.time};
      cases.push_back(disk_case(lanes, load, fio.ok()));
    }
  }
  bench.measure({.title = cat("disk ", name_of(kind.op), ", ", name_of_cache(kind.direct)),
                 .ours = cat("transfers by index at random blocks, `depth` of them in flight; ",
                             lanes.path()),
                 .reference = fio.ok() ? "fio with io_uring on the same file, below"
                                       : cat("skipped: ", fio.to_string())},
                std::move(cases));
}

// Direct I/O first: it finds nothing of the file in the page cache. What goes through the page
// cache finds all of it there.
void measure_all(Bench& bench, DiskLanes& lanes) {
  const Status fio = find_fio();
  if (lanes.direct_refusal().empty()) {
    measure_kind(bench, lanes, {TransferOp::read, true}, fio);
    measure_kind(bench, lanes, {TransferOp::write, true}, fio);
  } else {
    std::printf("disk, O_DIRECT: skipped: %s\n\n", lanes.direct_refusal().c_str());
  }
  lanes.warm();
  measure_kind(bench, lanes, {TransferOp::read, false}, fio);
  measure_kind(bench, lanes, {TransferOp::write, false}, fio);
}

/// "key=value", or nothing.
backend::Params params_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {};
  return {{text.substr(0, equals), text.substr(equals + 1)}};
}

struct Where {
  std::string directory = "/var/tmp";  // on a disk, where /tmp may be memory
  std::string param;
};

int run(Options options, const Where& where) {
  if (options.rounds == 0) options.rounds = options.rounds_or(1, 3, 7);
  const auto here = must(sys::TemporaryDirectory::create(where.directory));
  const std::uint64_t size_bytes = (options.effort == Effort::quick ? 64 : 256) * kMiB;
  DiskLanes lanes({here.file("bench"), size_bytes}, params_of(where.param));
  Bench bench(std::move(options));
  measure_all(bench, lanes);
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  towpath::bench::Where where;
  auto options = towpath::bench::parse(
      "Reading and writing a file, against fio.", {argc, argv}, status,
      {{"--dir", "where the file is made (256 MiB)", &where.directory},
       {"--param", "of the posix backend: registered_buffers=off, engine=threads", &where.param}});
  return options ? towpath::bench::run(*std::move(options), where) : status;
}
