// Two processes over TCP (the backend tcp), and over shm on one host, against ucx_perftest (package
// ucx-utils) in the same run.
#include <algorithm>
#include <numeric>
#include <random>

#include <towpath/core/format.h>
#include <towpath/kv/digest.h>
#include <towpath/memory/shared_region.h>
#include <towpath/standard/standard.h>

#include "bench/child.h"
#include "bench/harness.h"
#include "bench/one_host.h"
#include "bench/perftest.h"

namespace towpath::bench {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kPool = 256 * kMiB;
constexpr std::uint64_t kBlock = 16 * kKiB;
constexpr double kAim = 0.97;
constexpr double kProvenAim = 0.97;         // the digest takes at most 3 percent
constexpr const char* kTransports = "tcp";  // of the reference

/// An agent over TCP with a pool.
struct Side {
  Side(const std::string& name, bool progress_thread)
      : node(must(standard::Node::open({.name = name, .progress_thread = progress_thread}))),
        pool(must(memory::SharedMemoryRegion::create({.name = name, .size_bytes = kPool}))) {
    must(node->agent().add_backend("tcp"));
    known = must(node->agent().register_region(pool));
  }
  std::unique_ptr<standard::Node> node;
  std::shared_ptr<memory::SharedMemoryRegion> pool;
  memory::Registration known;
};

/// The other process: sends every notification back.
[[noreturn]] void live(const Channel& parent) {
  Side side("owner", true);
  agent::Agent& agent = side.node->agent();
  parent.send(must(agent.metadata()));
  parent.send(as_bytes(std::to_string(side.pool->descriptor().address)));
  must(agent.load_metadata(parent.receive()));
  parent.send(as_bytes("ready"));
  while (true) {
    for (const agent::Notification& reported : agent.wait_notifications(std::chrono::seconds(1)))
      must(agent.notify(reported.from.name, reported.message));
  }
}

class Mover {
 public:
  Mover() {
    side_ = std::make_unique<Side>("mover", true);  // it must be heard while the reference runs
    const Channel& owner = child_.channel();
    must(agent().load_metadata(owner.receive()));
    remote_ = std::stoull(std::string(as_text(owner.receive())));
    owner.send(must(agent().metadata()));
    (void)owner.receive();
  }

  agent::Agent& agent() { return side_->node->agent(); }
  const Clock& clock() { return side_->node->clock(); }

  /// One block a transfer, `depth` of them in flight.
  Sample stream(TransferOp op, std::uint64_t block, std::uint64_t depth) {
    const auto transfers = std::make_shared<std::vector<agent::Transfer>>();
    for (std::uint64_t i = 0; i < depth; ++i) {
      DescriptorList here(MemoryKind::system);
      DescriptorList there(MemoryKind::system);
      must(here.add(Descriptor{side_->pool->descriptor().address + i * block, block, 0}));
      must(there.add(Descriptor{remote_ + i * block, block, 0}));
      transfers->push_back(must(agent().create_transfer(op, here, "owner", there)));
    }
    const auto body = [transfers](std::uint64_t times) {
      while (times-- > 0) {
        for (agent::Transfer& one : *transfers) must(one.post());
        for (agent::Transfer& one : *transfers) {
          if (one.wait() != Outcome::done) fail(one.status());
        }
      }
    };
    return timed(clock(), {body, static_cast<double>(block * depth)});
  }
  /// `count` blocks, scattered over both pools unless it is one; `proven`: then a digest of each.
  Sample move(TransferOp op, std::uint64_t block, std::uint64_t count, bool proven = false) {
    const auto offsets = [&](std::uint32_t seed) {
      std::vector<std::uint64_t> slots(count == 1 ? 1 : kPool / block);
      std::iota(slots.begin(), slots.end(), 0);
      if (count > 1) std::ranges::shuffle(slots, std::mt19937(seed));
      slots.resize(count);
      return slots;
    };
    const auto here_at = offsets(1);
    const auto there_at = offsets(2);
    DescriptorList here(MemoryKind::system);
    DescriptorList there(MemoryKind::system);
    for (std::uint64_t i = 0; i < count; ++i) {
      must(here.add(Descriptor{side_->pool->descriptor().address + here_at[i] * block, block, 0}));
      must(there.add(Descriptor{remote_ + there_at[i] * block, block, 0}));
    }
    const auto transfer =
        std::make_shared<agent::Transfer>(must(agent().create_transfer(op, here, "owner", there)));
    const auto prove = [pool = side_->pool->bytes(), here_at, block] {
      for (const std::uint64_t slot : here_at)
        (void)kv::digest_of(pool.subspan(slot * block, block), slot);
    };
    const auto body = [transfer, proven, prove](std::uint64_t times) {
      while (times-- > 0) {
        must(transfer->post());
        if (transfer->wait() != Outcome::done) fail(transfer->status());
        if (proven) prove();
      }
    };
    const bool is_small = block < 64 * kKiB && count == 1;
    return timed(clock(), {body, is_small ? 1.0 : static_cast<double>(block * count)});
  }
  Sample round_trip() {
    const auto body = [this](std::uint64_t times) {
      while (times-- > 0) {
        must(agent().notify("owner", as_bytes("ping")));
        while (agent().wait_notifications(std::chrono::seconds(1)).empty()) {
        }
      }
    };
    return timed(clock(), {body, 1});
  }

 private:
  Child child_{live};
  std::unique_ptr<Side> side_;
  std::uint64_t remote_ = 0;
};

void measure_bandwidth(Bench& bench, Mover& mover) {
  std::vector<Case> cases;
  for (const std::uint64_t size : {64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB}) {
    const std::uint64_t depth = std::clamp<std::uint64_t>(32 * kMiB / size, 1, 16);
    const Perftest test{.transports = kTransports,
                        .test = "tag_bw",
                        .size = size,
                        .iterations = std::clamp<std::uint64_t>(256 * kMiB / size, 4, 2000)};
    for (const TransferOp op : {TransferOp::write, TransferOp::read}) {
      cases.push_back({.name = cat(name_of(op), " ", format_bytes(size), ", ", depth, " in flight"),
                       .shown = Shown::gigabytes_per_second,
                       .ours = mover.stream(op, size, depth),
                       .reference = bandwidth_of(test),
                       .aim = {.ratio_at_least = kAim},
                       .command = test.command()});
    }
  }
  bench.measure(
      {.title = "bandwidth over TCP",
       .ours = "post() and wait() of transfers, each acknowledged by the owner",
       .reference = "ucx_perftest tag_bw with UCX's own settings, both sides asleep when idle"},
      std::move(cases));
}

void measure_scattered(Bench& bench, Mover& mover) {
  std::vector<Case> cases;
  for (const std::uint64_t count : {1024, 16384}) {
    const Perftest test{
        .transports = kTransports, .test = "tag_bw", .size = kBlock, .iterations = count};
    cases.push_back({.name = cat("write ", count, " x 16 KiB"),
                     .shown = Shown::gigabytes_per_second,
                     .ours = mover.move(TransferOp::write, kBlock, count),
                     .reference = bandwidth_of(test),
                     .command = test.command()});
  }
  bench.measure({.title = "scattered blocks over TCP",
                 .ours = "post() and wait() of one prepared transfer",
                 .reference = "ucx_perftest tag_bw, as many messages out of one block"},
                std::move(cases));
}

void measure_proof(Bench& bench, Mover& mover) {
  std::vector<Case> cases;
  for (const std::uint64_t block : {64 * kKiB, kMiB}) {
    const std::uint64_t count = 32 * kMiB / block;
    cases.push_back({.name = cat("read ", count, " x ", format_bytes(block)),
                     .shown = Shown::gigabytes_per_second,
                     .ours = mover.move(TransferOp::read, block, count, true),
                     .reference = mover.move(TransferOp::read, block, count),
                     .aim = {.ratio_at_least = kProvenAim}});
  }
  bench.measure({.title = "blocks proven after a pull over TCP",
                 .ours = "one transfer, then XXH3-64 of each block",
                 .reference = "the transfer alone"},
                std::move(cases));
}

void measure_small(Bench& bench, Mover& mover) {
  std::vector<Case> cases;
  for (const std::uint64_t size : {std::uint64_t{8}, 4 * kKiB}) {
    const Perftest test{
        .transports = kTransports, .test = "tag_lat", .size = size, .iterations = 2000};
    cases.push_back({.name = cat("write ", format_bytes(size)),
                     .ours = mover.move(TransferOp::write, size, 1),
                     .reference = round_trip_of(test),
                     .command = test.command()});
  }
  cases.push_back({.name = "notification, there and back", .ours = mover.round_trip()});
  bench.measure({.title = "small ones over TCP",
                 .ours = "post() and wait(), the owner asleep in between",
                 .reference = "ucx_perftest tag_lat, there and back, both sides asleep in between"},
                std::move(cases));
}

int run(Options options) {
  Bench bench(std::move(options));
  OneHost().measure(bench);  // it is gone, with its threads, before the next one forks
  Mover mover;
  measure_bandwidth(bench, mover);
  measure_scattered(bench, mover);
  measure_proof(bench, mover);
  measure_small(bench, mover);
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  auto options = towpath::bench::parse("Two processes over UCX and shm, against ucx_perftest.",
                                       {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
