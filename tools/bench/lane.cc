#include "tools/bench/lane.h"

#include <algorithm>

#include <towpath/core/format.h>

namespace towpath::tools::bench {
namespace {

// Times for which there is room from the beginning. Nobody waits for many more than these.
constexpr std::uint64_t kMostReserved = std::uint64_t{1} << 24U;

}  // namespace

Result<Lane> Lane::open(const Part& part) {
  Lane lane(part);
  lane.flights_.resize(part.options->pipeline_depth);
  for (std::size_t slot = 0; slot < lane.flights_.size(); ++slot) TOWPATH_TRY(lane.make(slot));
  return lane;
}

Status Lane::make(std::size_t slot) {
  const Options& options = *part_.options;
  const Shape& shape = part_.shape;
  const std::uint64_t offset = slot * span_of(options, shape);
  StridedDescriptor blocks{.address = part_.local.address + part_.offset_bytes + offset,
                           .length = shape.block_bytes,
                           .stride = stride_of(options, shape),
                           .count = shape.batch,
                           .device_id = part_.local.device_id};
  const Instant begin = part_.clock->now();
  DescriptorList local(part_.local.kind);
  TOWPATH_TRY(local.add(blocks));
  blocks.address = part_.offset_bytes + offset;
  DescriptorList remote(part_.remote->kind());
  TOWPATH_TRY(part_.remote->add(remote, blocks));
  TOWPATH_TRY(flights_[slot].transfer,
              part_.agent->create_transfer(options.op, local, part_.remote->peer(), remote,
                                           {.backends = {options.backend}}));
  times_.prepare.push_back((part_.clock->now() - begin).count());
  return {};
}

Status Lane::launch(std::size_t slot) {
  if (part_.options->recreate) TOWPATH_TRY(make(slot));
  Flight& flight = flights_[slot];
  flight.begin = part_.clock->now();
  TOWPATH_TRY(flight.transfer.post({.timeout = part_.options->timeout}));
  flight.posted = part_.clock->now();
  flight.active = true;
  return {};
}

Status Lane::land(std::size_t slot) {
  Flight& flight = flights_[slot];
  flight.active = false;
  const Outcome outcome = flight.transfer.wait();
  const Instant end = part_.clock->now();
  if (outcome != Outcome::done) return flight.transfer.status();
  times_.post.push_back((flight.posted - flight.begin).count());
  times_.transfer.push_back((end - flight.posted).count());
  times_.latency.push_back((end - flight.begin).count());
  times_.bytes += part_.shape.bytes();
  return {};
}

Status Lane::run(std::uint64_t iterations) {
  const auto room = std::min(iterations, kMostReserved);
  for (auto* times : {&times_.post, &times_.transfer, &times_.latency}) times->reserve(room);
  if (part_.options->recreate) times_.prepare.reserve(times_.prepare.size() + room);
  times_.begin = part_.clock->now();
  const std::size_t depth = flights_.size();
  for (std::uint64_t i = 0; i < iterations; ++i) {
    const std::size_t slot = i % depth;
    if (flights_[slot].active) TOWPATH_TRY(land(slot));
    TOWPATH_TRY(launch(slot));
  }
  // The oldest first.
  for (std::uint64_t i = iterations; i < iterations + depth; ++i) {
    if (flights_[i % depth].active) TOWPATH_TRY(land(i % depth));
  }
  times_.end = part_.clock->now();
  if (const auto report = flights_.front().transfer.report(); report.ok())
    times_.segments = report->segments;
  return {};
}

void Lane::forget_runs() {
  Times kept;
  if (!part_.options->recreate) kept.prepare = std::move(times_.prepare);
  times_ = std::move(kept);
}

std::string Lane::path() const {
  const agent::Explanation reported = flights_.front().transfer.explain();
  const agent::Candidate* chosen = reported.chosen();
  return chosen == nullptr ? std::string() : chosen->path;
}

}  // namespace towpath::tools::bench
