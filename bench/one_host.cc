#include "bench/one_host.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include <towpath/core/format.h>

namespace towpath::bench {
namespace {

constexpr std::uint64_t kHostPool = 64 * kMiB;
constexpr std::array kSizes = {64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB};
constexpr double kHostAim = 0.97;
constexpr std::uint64_t kReferenceBytes = 512 * kMiB;  ///< what a sample of ucx_perftest moves

Perftest reference(const std::string& transports, const std::string& test, std::uint64_t size) {
  return {.transports = transports,
          .test = test,
          .size = size,
          .iterations = std::clamp<std::uint64_t>(kReferenceBytes / size, 8, 8192)};
}

/// A put or a get: its target rests, as ours does, and who asks does not sleep.
Perftest one_sided(TransferOp op, std::uint64_t size) {
  Perftest test = reference("posix", op == TransferOp::write ? "ucp_put_bw" : "ucp_get", size);
  test.how = "-o";
  return test;
}

}  // namespace

OneHost::OneHost() : peer_(PeerProcess::start(kHostPool)) {
  node_ = must(standard::Node::open({.name = "neighbour", .progress_thread = false}));
  // As it comes along with NIXL's UCX.
  must(node_->agent().add_backend("shm", {{"copy_threads", "auto"}}));
  shared_ =
      must(memory::SharedMemoryRegion::create({.name = "bench-here", .size_bytes = kHostPool}));
  plain_ = must(memory::SystemRegion::allocate(kHostPool));
  std::memset(shared_->bytes().data(), 1, kHostPool);
  std::memset(plain_->bytes().data(), 1, kHostPool);
  shared_known_ = must(node_->agent().register_region(shared_));
  plain_known_ = must(node_->agent().register_region(plain_));
  peer_->introduce(node_->agent());
}

void OneHost::measure(Bench& bench) {
  measure_mapped(bench);
  measure_process_vm(bench);
}

agent::Transfer OneHost::transfer(TransferOp op, const Pools& pools, std::uint64_t size) {
  DescriptorList here(MemoryKind::system);
  DescriptorList there(MemoryKind::system);
  must(here.add(Descriptor{pools.here.descriptor().address, size, 0}));
  must(there.add(Descriptor{pools.there, size, 0}));
  return must(node_->agent().create_transfer(op, here, kPeerName, there));
}

/// As often as the reference does it, once it has as often been tried: what a block costs depends
/// on which caches it is in.
Sample OneHost::move(TransferOp op, const Pools& pools, const Perftest& like, Reported reported) {
  const auto moved = std::make_shared<agent::Transfer>(transfer(op, pools, like.size));
  const auto repeat = [moved, &clock = node_->clock()](std::uint64_t times) {
    std::vector<double> took(times);
    for (double& one : took) {
      const Instant start = clock.now();
      must(moved->post());
      if (moved->wait() != Outcome::done) fail(moved->status());
      one = static_cast<double>((clock.now() - start).count());
    }
    return took;
  };
  return [repeat, like, reported] {
    (void)repeat(like.warm_up());
    const std::vector<double> took = repeat(like.iterations);
    const double one = reported == Reported::median ? spread_of(took).median
                                                    : std::reduce(took.begin(), took.end()) /
                                                          static_cast<double>(took.size());
    return one / static_cast<double>(like.size);
  };
}

/// By which way they go, in the agent's own words.
std::string OneHost::path(const Pools& pools) {
  return transfer(TransferOp::read, pools, kMiB).explain().chosen()->path;
}

/// Ours beside a reference that is reported as ours is.
Case OneHost::beside(TransferOp op, const Pools& pools, const Perftest& like, Reported reported) {
  return {
      .name = cat(name_of(op), " ", format_bytes(like.size)),
      .shown = Shown::gigabytes_per_second,
      .ours = move(op, pools, like, reported),
      .reference = reported == Reported::median ? median_bandwidth_of(like) : bandwidth_of(like),
      .aim = {.ratio_at_least = kHostAim},
      .command = like.command()};
}

void OneHost::measure_mapped(Bench& bench) {
  const Pools pools{*shared_, peer_->shared_address()};
  std::vector<Case> cases;
  for (const std::uint64_t size : kSizes)
    for (const TransferOp op : {TransferOp::write, TransferOp::read})
      cases.push_back(beside(op, pools, one_sided(op, size), Reported::median));
  bench.measure({.title = "bandwidth over shared memory",
                 .ours = cat("post() and wait() over shm: ", path(pools)),
                 .reference = "ucx_perftest, puts and gets by mapped memory"},
                std::move(cases));
}

void OneHost::measure_process_vm(Bench& bench) {
  const Pools pools{*plain_, peer_->plain_address()};
  std::vector<Case> cases;
  for (const std::uint64_t size : kSizes)
    for (const TransferOp op : {TransferOp::write, TransferOp::read})
      cases.push_back(beside(op, pools, reference("posix,cma", "tag_bw", size), Reported::mean));
  bench.measure({.title = "bandwidth over CMA",
                 .ours = cat("post() and wait() over shm: ", path(pools)),
                 .reference = "ucx_perftest tag_bw: its receiver's process_vm_readv, both sides "
                              "asleep when idle"},
                std::move(cases));
}

}  // namespace towpath::bench
