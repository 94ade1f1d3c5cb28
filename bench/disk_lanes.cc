#include "bench/disk_lanes.h"

#include <algorithm>
#include <cstring>

#include <sys/resource.h>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr Duration kLongest = std::chrono::seconds(1);
constexpr const char* kName = "bench";

/// Of this thread alone, as fio counts its job's.
double cpu_seconds() {
  rusage used{};
  (void)::getrusage(RUSAGE_THREAD, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

DiskLanes::DiskLanes(DiskFile file, const backend::Params& params) : file_(std::move(file)) {
  node_ = must(standard::Node::open({.name = kName, .backends = {}, .progress_thread = false}));
  must(node_->agent().add_backend("posix", params));
  const auto open = [&](memory::DirectIo direct) {
    return must(memory::DiskRegion::open(
        {.path = file_.path, .size_bytes = file_.size_bytes, .direct = direct}, files_));
  };
  memory_ = must(memory::SystemRegion::allocate(kLaneMemory));
  direct_ = open(memory::DirectIo::wanted);
  buffered_ = open(memory::DirectIo::off);
  fill();
  known_.push_back(must(node_->agent().register_region(memory_)));
  known_.push_back(must(node_->agent().register_region(direct_)));
  known_.push_back(must(node_->agent().register_region(buffered_)));
}

// Also the memory: what was never written reads as one shared page of zeros, which is no copy.
void DiskLanes::fill() {
  const ByteSpan bytes = memory_->bytes();
  for (std::size_t i = 0; i < bytes.size(); i += 64) std::memcpy(bytes.data() + i, &i, sizeof i);
  for (std::uint64_t offset = 0; offset < file_.size_bytes; offset += kMiB)
    must(sys::write_exactly(direct_->file(), bytes.first(kMiB), offset));
  settle();
}

void DiskLanes::warm() {
  const ByteSpan bytes = memory_->bytes();
  for (std::uint64_t offset = 0; offset < file_.size_bytes; offset += kMiB)
    must(sys::read_exactly(buffered_->file(), bytes.first(kMiB), offset));
}

void DiskLanes::settle() { must(buffered_->file().sync()); }

DiskLanes::Sides DiskLanes::prepare(const DiskLoad& load) {
  const RegionDescriptor file = (load.direct ? direct_ : buffered_)->descriptor();
  const std::uint64_t blocks = file_.size_bytes / load.block_bytes;
  const std::uint64_t length = load.block_bytes;
  DescriptorList here(MemoryKind::system);
  DescriptorList there(MemoryKind::disk);
  must(here.add(StridedDescriptor{memory_->descriptor().address, length, length, load.depth, 0}));
  must(there.add(StridedDescriptor{0, length, length, blocks, file.device_id}));
  agent::Agent& agent = node_->agent();
  return {must(agent.prepare(here)), must(agent.prepare_remote(kName, there)), blocks};
}

agent::Transfer DiskLanes::start(const Sides& sides, const DiskLoad& load, std::uint32_t lane) {
  const auto block = static_cast<std::uint32_t>(random_() % sides.blocks);
  agent::Transfer transfer = must(node_->agent().make_transfer(
      load.op, sides.memory, sides.file,
      {.local = agent::Selection::of({&lane, 1}), .remote = agent::Selection::of({&block, 1})}));
  must(transfer.post());
  return transfer;
}

std::string DiskLanes::path() {
  const DiskLoad load;
  const Sides sides = prepare(load);
  const auto reported = must(node_->agent().explain(load.op, sides.memory, sides.file));
  return reported.chosen() != nullptr ? reported.chosen()->path : std::string();
}

DiskFigure DiskLanes::run(const DiskLoad& load) {
  agent::Agent& agent = node_->agent();
  const Clock& clock = node_->clock();
  const Sides sides = prepare(load);
  std::vector<agent::Transfer> lanes;
  const double cpu_before = cpu_seconds();
  const Instant begin = clock.now();
  for (std::uint32_t lane = 0; lane < load.depth; ++lane) lanes.push_back(start(sides, load, lane));
  std::uint64_t ended = 0;
  while (clock.now() - begin < load.time) {
    const std::uint64_t before = ended;
    for (std::uint32_t lane = 0; lane < load.depth; ++lane) {
      if (!lanes[lane].ended()) continue;
      if (lanes[lane].outcome() != Outcome::done) fail(lanes[lane].status());
      ++ended;
      lanes[lane] = start(sides, load, lane);
    }
    if (!agent.progress() && ended == before) agent.wait_for_work(kLongest);
  }
  for (agent::Transfer& lane : lanes) ended += lane.wait() == Outcome::done ? 1 : 0;
  const auto took = static_cast<double>((clock.now() - begin).count());
  const auto bytes = static_cast<double>(ended * load.block_bytes);
  return {.nanoseconds_per_byte = took / bytes,
          .cpu_seconds_per_gib = (cpu_seconds() - cpu_before) * static_cast<double>(kGiB) / bytes};
}

}  // namespace towpath::bench
