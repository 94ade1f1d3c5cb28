// Pulling between two processes, against memcpy of the same runs between the same mappings.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>

#include <towpath/core/format.h>
#include <towpath/standard/standard.h>

#include "bench/harness.h"
#include "bench/peer_process.h"

namespace towpath::bench {
namespace {

using agent::Agent;
using agent::Transfer;

constexpr std::uint64_t kPool = 128 * kMiB;
constexpr double kAim = 0.95;

// NIXL 1.4 over UCX, recorded on a machine of 2 cores: nanoseconds.
constexpr double kNixlSmallWrite = 3600;
constexpr double kNixlRoundTrip = 20000;

/// `count` blocks of `block` bytes: one behind the other, or anywhere in both pools.
struct Shape {
  std::uint64_t block = 0;
  std::uint64_t count = 1;

  std::uint64_t bytes() const { return block * count; }
  std::string name() const {
    const std::string size = format_bytes(block);
    return count == 1 ? cat("contiguous ", size)
                      : cat("scattered ", count, " x ", size, " (", format_bytes(bytes()), ")");
  }
};

struct Run {
  std::uint64_t source = 0;  // offsets in the pools
  std::uint64_t target = 0;
  std::uint64_t length = 0;
};

std::vector<std::uint64_t> some_offsets(const Shape& shape, std::uint32_t seed) {
  std::vector<std::uint64_t> slots(kPool / shape.block);
  std::iota(slots.begin(), slots.end(), 0);
  if (shape.count > 1) std::ranges::shuffle(slots, std::mt19937(seed));
  slots.resize(shape.count);
  for (std::uint64_t& slot : slots) slot *= shape.block;
  return slots;
}

std::vector<Run> runs_of(const Shape& shape) {
  const auto sources = some_offsets(shape, 1);
  const auto targets = some_offsets(shape, 2);
  std::vector<Run> runs;
  for (std::size_t i = 0; i < sources.size(); ++i)
    runs.push_back({sources[i], targets[i], shape.block});
  return runs;
}

/// This process: an agent that is driven by hand, and a pool to pull into.
class Puller {
 public:
  explicit Puller(const PeerProcess& peer) : peer_(peer) {
    node_ = must(
        standard::Node::open({.name = "puller", .backends = {"shm"}, .progress_thread = false}));
    pool_ = must(memory::SharedMemoryRegion::create({.name = "bench-puller", .size_bytes = kPool}));
    known_ = must(agent().register_region(pool_));
    peer.introduce(agent());
  }

  Agent& agent() { return node_->agent(); }
  const Clock& clock() { return node_->clock(); }

  Transfer transfer(const std::vector<Run>& runs, std::uint64_t remote_address) {
    DescriptorList here(MemoryKind::system);
    DescriptorList there(MemoryKind::system);
    for (const Run& run : runs) {
      must(here.add(Descriptor{pool_->descriptor().address + run.target, run.length, 0}));
      must(there.add(Descriptor{remote_address + run.source, run.length, 0}));
    }
    return must(agent().create_transfer(TransferOp::read, here, kPeerName, there));
  }

  void copy(const std::vector<Run>& runs) {
    std::byte* const to = pool_->bytes().data();
    const std::byte* const from = peer_.shared_bytes().data();
    for (const Run& run : runs) std::memcpy(to + run.target, from + run.source, run.length);
  }

  /// Both pools of the peer hold the same bytes, so one of them reports what must have arrived.
  void verify(const std::vector<Run>& runs) {
    for (const Run& run : runs) {
      if (std::memcmp(pool_->bytes().data() + run.target, peer_.shared_bytes().data() + run.source,
                      run.length) != 0)
        fail(error(Code::corrupt, cat("wrong bytes at ", run.target, " after a pull")));
    }
  }
  void forget(const std::vector<Run>& runs) {
    for (const Run& run : runs) std::memset(pool_->bytes().data() + run.target, 0, run.length);
  }

 private:
  const PeerProcess& peer_;
  std::unique_ptr<standard::Node> node_;
  std::shared_ptr<memory::SharedMemoryRegion> pool_;
  memory::Registration known_;
};

void finish(Transfer& transfer) {
  must(transfer.post());
  if (transfer.wait() != Outcome::done) fail(transfer.status());
}

Case pull_case(Puller& puller, const Shape& shape, std::uint64_t remote_address) {
  const auto runs = runs_of(shape);
  const auto transfer = std::make_shared<Transfer>(puller.transfer(runs, remote_address));
  puller.forget(runs);
  finish(*transfer);
  puller.verify(runs);
  const auto bytes = static_cast<double>(shape.bytes());
  const auto pull = [transfer](std::uint64_t times) {
    while (times-- > 0) finish(*transfer);
  };
  const auto copy = [&puller, runs](std::uint64_t times) {
    while (times-- > 0) puller.copy(runs);
  };
  Case made{.name = shape.name(),
            .shown = Shown::gigabytes_per_second,
            .ours = timed(puller.clock(), {pull, bytes}),
            .reference = timed(puller.clock(), {copy, bytes})};
  if (shape.bytes() >= kMiB) made.aim.ratio_at_least = kAim;
  return made;
}

std::vector<Shape> shapes(Effort effort) {
  std::vector<Shape> shapes;
  const std::uint64_t step = effort == Effort::full ? 2 : 4;
  for (std::uint64_t block = 4 * kKiB; block <= 64 * kMiB; block *= step)
    shapes.push_back({.block = block});
  for (const std::uint64_t block : {4 * kKiB, 64 * kKiB}) {
    for (std::uint64_t count = 16; count * block <= 64 * kMiB; count *= step * step)
      shapes.push_back({block, count});
    shapes.push_back({block, 1024});
  }
  const auto key = [](const Shape& shape) { return std::pair(shape.block, shape.count); };
  std::ranges::sort(shapes, {}, key);
  const auto repeated = std::ranges::unique(shapes, {}, key);
  shapes.erase(repeated.begin(), repeated.end());
  return shapes;
}

void measure_pulls(Bench& bench, Puller& puller, const char* path, std::uint64_t remote_address) {
  std::vector<Case> cases;
  for (const Shape& shape : shapes(bench.options().effort))
    cases.push_back(pull_case(puller, shape, remote_address));
  bench.measure({.title = cat("pull, ", path),
                 .ours = "post() and wait() of a prepared read of the peer process over shm, " +
                         std::string(path),
                 .reference = "memcpy of each run, by one thread, from the peer's memfd mapped "
                              "here to a memfd"},
                std::move(cases));
}

/// What a single small block costs.
void measure_small(Bench& bench, Puller& puller, const PeerProcess& peer) {
  const std::vector<Run> runs{{0, 0, 4 * kKiB}};
  const auto copy = [&puller, runs](std::uint64_t times) {
    while (times-- > 0) puller.copy(runs);
  };
  const auto repost = [&](std::uint64_t address) {
    const auto transfer = std::make_shared<Transfer>(puller.transfer(runs, address));
    return [transfer](std::uint64_t times) {
      while (times-- > 0) finish(*transfer);
    };
  };
  const auto a_case = [&](const char* name, const auto& body) {
    return Case{.name = name,
                .ours = timed(puller.clock(), {body, 1}),
                .reference = timed(puller.clock(), {copy, 1})};
  };
  std::vector<Case> cases{
      a_case("4 KiB, mapped", repost(peer.shared_address())),
      a_case("4 KiB, process_vm", repost(peer.plain_address())),
      a_case("4 KiB, mapped, prepared and made for this one", [&](std::uint64_t times) {
        while (times-- > 0) {
          auto once = puller.transfer(runs, peer.shared_address());
          finish(once);
        }
      })};
  cases.front().aim.value_at_most = 1000;
  cases.back().aim.value_at_most = 490;
  bench.measure({.title = "a small transfer",
                 .ours = "post() and wait() of one 4 KiB read of the peer process",
                 .reference = cat("memcpy of the same 4 KiB; NIXL 1.4 over UCX took ",
                                  kNixlSmallWrite, " ns (recorded, another machine)")},
                std::move(cases));
}

/// The same with nothing but a cache line between the two.
double line_round_trip(Puller& puller, const PeerProcess& peer) {
  peer.echo(Waiting::line);
  const std::atomic_ref<std::uint64_t> line(peer.line());
  std::uint64_t next = 1;
  const auto body = [&](std::uint64_t times) {
    for (; times > 0; --times, next += 2) {
      line.store(next, std::memory_order_release);
      while (line.load(std::memory_order_acquire) == next) continue;
    }
  };
  const double took = timed(puller.clock(), {body, 1})();
  peer.end_line();
  return took;
}

const Aim kPolled{.value_at_most = 500};
const Aim kAsleep{.value_at_most = 8000};

/// One notification there and one back.
Case round_trip(Puller& puller, const PeerProcess& peer, Waiting how) {
  Agent& agent = puller.agent();
  const auto body = [&agent, how](std::uint64_t times) {
    while (times-- > 0) {
      must(agent.notify(kPeerName, as_bytes("ping")));
      for (bool back = false; !back;) {
        if (how == Waiting::polling) agent.progress();
        back = !(how == Waiting::polling ? agent.take_notifications()
                                         : agent.wait_notifications(std::chrono::seconds(1)))
                    .empty();
      }
    }
  };
  const Sample inner = timed(puller.clock(), {body, 1});
  const auto sample = [&peer, &agent, how, inner] {
    peer.echo(how);
    const double took = inner();
    must(agent.notify(kPeerName, as_bytes("end")));
    return took;
  };
  if (how == Waiting::sleeping)
    return {.name = "both sleep", .ours = sample, .recorded = kNixlRoundTrip, .aim = kAsleep};
  return {.name = "both poll",
          .ours = sample,
          .reference = [&puller, &peer] { return line_round_trip(puller, peer); },
          .aim = kPolled};
}

void measure_round_trips(Bench& bench, Puller& puller, const PeerProcess& peer) {
  bench.measure(
      {.title = "notification, there and back",
       .ours = "notify() and the peer's answer, both agents driven by hand",
       .reference = "polled: a cache line there and back; asleep: NIXL 1.4 over UCX, recorded on "
                    "another machine"},
      {round_trip(puller, peer, Waiting::polling), round_trip(puller, peer, Waiting::sleeping)});
}

int run(Options options) {
  const auto peer = PeerProcess::start(kPool);
  Puller puller(*peer);
  Bench bench(std::move(options));
  measure_pulls(bench, puller, "mapped", peer->shared_address());
  measure_pulls(bench, puller, "process_vm", peer->plain_address());
  measure_small(bench, puller, *peer);
  measure_round_trips(bench, puller, *peer);
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  auto options = towpath::bench::parse(
      "Pulling between two processes, against memcpy of the same runs.", {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
