#include "tools/bench/runner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <towpath/core/format.h>
#include <towpath/run/worker.h>

#include "tools/bench/pattern.h"
#include "tools/bench/target.h"

namespace towpath::tools::bench {
namespace {

constexpr std::uint64_t kLargeBlock = std::uint64_t{1} << 20U;

Row row_of(const Shape& shape, std::uint64_t iterations, const std::vector<Lane>& lanes) {
  Row row{.shape = shape, .iterations = iterations};
  Times all = lanes.front().times();
  row.segments = all.segments;
  for (const Lane& lane : std::span(lanes).subspan(1)) {
    const Times& more = lane.times();
    all.begin = std::min(all.begin, more.begin);
    all.end = std::max(all.end, more.end);
    all.bytes += more.bytes;
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(all.prepare, more.prepare);
    append(all.post, more.post);
    append(all.transfer, more.transfer);
    append(all.latency, more.latency);
  }
  row.bytes = all.bytes;
  row.wall = all.end - all.begin;
  row.prepare = spread_of(std::move(all.prepare));
  row.post = spread_of(std::move(all.post));
  row.transfer = spread_of(std::move(all.transfer));
  row.latency = spread_of(std::move(all.latency));
  return row;
}

}  // namespace

Spread spread_of(std::vector<std::int64_t> nanoseconds) {
  if (nanoseconds.empty()) return {};
  std::ranges::sort(nanoseconds);
  const auto count = static_cast<double>(nanoseconds.size());
  const auto at = [&](double percent) {
    const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * count));
    return static_cast<double>(
        nanoseconds[std::clamp<std::size_t>(rank, 1, nanoseconds.size()) - 1]);
  };
  const double sum = std::accumulate(nanoseconds.begin(), nanoseconds.end(), 0.0);
  return {sum / count, at(50), at(90), at(99), at(99.9), static_cast<double>(nanoseconds.back())};
}

std::vector<Shape> shapes_of(const Options& options) {
  std::vector<Shape> shapes;
  for (std::uint64_t block = options.start_block_size; block <= options.max_block_size;
       block *= 2) {
    for (std::uint64_t batch = options.start_batch_size; batch <= options.max_batch_size;
         batch *= 2)
      shapes.push_back({block, batch});
  }
  return shapes;
}

Result<std::unique_ptr<Runner>> Runner::open(const Options& options, const Parts& parts,
                                             std::uint64_t bytes) {
  std::unique_ptr<Runner> made(new Runner(options, parts.node, parts.remote));
  TOWPATH_TRY(made->near_, OwnMemory::make(options.local, parts.machine, bytes));
  TOWPATH_TRY(made->registration_, parts.node.agent().register_region(made->near_.region()));
  return made;
}

std::uint64_t Runner::iterations_of(const Shape& shape) const {
  if (shape.block_bytes <= kLargeBlock) return options_.iterations;
  return std::max<std::uint64_t>(options_.iterations / options_.large_block_factor, 1);
}

// The side that bytes leave has the pattern, the other one poison.
Result<Duration> Runner::prepare(const Blocks& blocks) {
  const std::uint64_t bytes = blocks.area_bytes();
  const bool push = options_.op == TransferOp::write;
  TOWPATH_TRY(push ? near_.fill(bytes, blocks.seed) : near_.poison(bytes));
  return remote_.prepare(blocks, push ? Remote::Before::poison : Remote::Before::pattern);
}

Status Runner::check(const Blocks& blocks, Row& row) {
  std::optional<std::uint64_t> wrong;
  if (options_.op == TransferOp::read) {
    TOWPATH_TRY(wrong, near_.first_wrong(blocks));
  } else {
    TOWPATH_TRY(const Remote::Looked looked, remote_.look(blocks));
    wrong = looked.wrong;
  }
  row.verified = true;
  if (wrong)
    row.wrong = cat("byte ", *wrong, " of block ", *wrong / blocks.stride, " (", blocks.block_bytes,
                    " bytes each) is not what was sent");
  return {};
}

Result<std::vector<Lane>> Runner::open_lanes(const Shape& shape) {
  std::vector<Lane> lanes;
  const std::uint64_t span = span_of(options_, shape) * options_.pipeline_depth;
  for (std::uint64_t index = 0; index < options_.threads; ++index) {
    TOWPATH_TRY(Lane lane, Lane::open({.agent = &node_.agent(),
                                       .clock = &node_.clock(),
                                       .remote = &remote_,
                                       .options = &options_,
                                       .local = near_.begin(),
                                       .offset_bytes = index * span,
                                       .shape = shape}));
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

Status Runner::run_lanes(std::vector<Lane>& lanes, std::uint64_t iterations) {
  if (lanes.size() == 1) return lanes.front().run(iterations);
  std::vector<Status> ends(lanes.size());
  {
    std::vector<run::Worker> workers;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      TOWPATH_TRY(
          run::Worker worker,
          run::Worker::start("lane", [&lane = lanes[i], &end = ends[i], iterations](
                                         const run::StopToken&) { end = lane.run(iterations); }));
      workers.push_back(std::move(worker));
    }
  }  // joins
  for (Status& end : ends) {
    if (!end.ok()) return std::move(end);
  }
  return {};
}

Result<Row> Runner::measure(const Shape& shape) {
  const Blocks blocks{.seed = ++seed_ * 0x9e3779b97f4a7c15,
                      .block_bytes = shape.block_bytes,
                      .stride = stride_of(options_, shape),
                      .count = blocks_of(options_, shape)};
  TOWPATH_TRY(prepare(blocks));
  TOWPATH_TRY(std::vector<Lane> lanes, open_lanes(shape));
  // Each place of the pipeline moves its bytes at least once, so that all can be verified.
  const std::uint64_t iterations = std::max(iterations_of(shape), options_.pipeline_depth);
  TOWPATH_TRY(run_lanes(lanes, options_.warmup));
  for (Lane& lane : lanes) lane.forget_runs();
  TOWPATH_TRY(const Remote::Looked before, remote_.look({}));
  const Duration cpu_before = cpu_time();
  TOWPATH_TRY(run_lanes(lanes, iterations));
  const Duration cpu = cpu_time() - cpu_before;
  TOWPATH_TRY(const Remote::Looked after, remote_.look({}));
  Row row = row_of(shape, iterations, lanes);
  row.cpu = cpu;
  if (!options_.one_process) row.target_cpu = after.cpu - before.cpu;
  if (path_.empty()) path_ = near_.remark() + lanes.front().path();
  if (options_.verify) TOWPATH_TRY(check(blocks, row));
  return row;
}

}  // namespace towpath::tools::bench
