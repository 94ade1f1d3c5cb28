// Making transfers: what a descriptor costs, and what is allocated.
#include <algorithm>
#include <numeric>
#include <random>

#include <towpath/core/format.h>

#include "bench/count_allocations.h"
#include "bench/harness.h"
#include "bench/pools.h"

namespace towpath::bench {
namespace {

using agent::PreparedList;
using agent::Selection;
using agent::Transfer;

// NIXL 1.4, recorded on a machine of 2 cores: nanoseconds per descriptor. We want a fifth.
constexpr double kNixlInOrder = 55;
constexpr double kNixlShuffled = 300;
constexpr double kAimInOrder = 11;
constexpr double kAimShuffled = 60;
// "Costs the same", with room for noise.
constexpr double kTheSame = 0.9;

/// Lists that are prepared once.
struct Prepared {
  explicit Prepared(const PoolShape& shape)
      : pools(shape),
        here(must(pools.agent().prepare(pools.blocks_here()))),
        there(must(pools.agent().prepare_remote(pools.peer(), pools.blocks_there()))) {}

  Pools pools;
  PreparedList here;
  PreparedList there;
};

struct Indices {
  std::vector<std::uint32_t> here;
  std::vector<std::uint32_t> there;
};

Indices indices(std::uint64_t count, bool shuffled) {
  Indices made;
  made.here.resize(count);
  std::iota(made.here.begin(), made.here.end(), 0);
  made.there = made.here;
  if (shuffled) {
    std::ranges::shuffle(made.here, std::mt19937(1));
    std::ranges::shuffle(made.there, std::mt19937(2));
  }
  return made;
}

Case by_index(const PoolShape& shape, bool shuffled) {
  const auto prepared = std::make_shared<Prepared>(shape);
  const auto body = [prepared, chosen = indices(shape.blocks, shuffled)](std::uint64_t times) {
    while (times-- > 0) {
      must(prepared->pools.agent().make_transfer(
          TransferOp::read, prepared->here, prepared->there,
          {.local = Selection::of(chosen.here), .remote = Selection::of(chosen.there)}));
    }
  };
  return {.name = cat(shape.blocks, shuffled ? " shuffled" : " in order", ", ", shape.regions,
                      shape.regions == 1 ? " region" : " regions"),
          .ours = timed(prepared->pools.clock(), {body, static_cast<double>(shape.blocks)}),
          .recorded = shuffled ? kNixlShuffled : kNixlInOrder,
          .aim = {.value_at_most = shuffled ? kAimShuffled : kAimInOrder}};
}

constexpr std::uint64_t kCounts[] = {64, 1024, 16384, 65536};

void measure_by_index(Bench& bench) {
  for (const std::uint64_t regions : {1, 1024}) {
    std::vector<Case> cases;
    for (const std::uint64_t count : kCounts) {
      for (const bool shuffled : {false, true})
        cases.push_back(by_index({.blocks = count, .regions = std::min(count, regions)}, shuffled));
    }
    bench.measure({.title = cat("make_transfer by index, lists over ", regions,
                                regions == 1 ? " region" : " regions"),
                   .ours = "make_transfer() from prepared lists, both sides by index, and letting "
                           "it go; per descriptor",
                   .reference = "NIXL 1.4, makeXferReq from prepared lists, recorded on another "
                                "machine: 55 ns in order, 300 ns shuffled"},
                  std::move(cases));
  }
}

/// Making a transfer of a whole list that is one strided entry.
Sample make_strided(std::uint64_t count, bool prepare_too) {
  const auto pools = std::make_shared<Pools>(PoolShape{.blocks = count});
  const auto here = pools->strided_here();
  const auto there = pools->strided_there();
  agent::Agent& agent = pools->agent();
  if (prepare_too) {
    const auto body = [pools, here, there, &agent](std::uint64_t times) {
      while (times-- > 0) must(agent.create_transfer(TransferOp::read, here, pools->peer(), there));
    };
    return timed(pools->clock(), {body, 1});
  }
  const auto body = [pools, mine = must(agent.prepare(here)),
                     theirs = must(agent.prepare_remote(pools->peer(), there)),
                     &agent](std::uint64_t times) {
    while (times-- > 0) must(agent.make_transfer(TransferOp::read, mine, theirs));
  };
  return timed(pools->clock(), {body, 1});
}

void measure_strided(Bench& bench) {
  std::vector<Case> cases;
  for (const bool prepare_too : {false, true}) {
    for (const std::uint64_t count : kCounts) {
      cases.push_back({.name = cat(count, prepare_too ? ", prepared for it" : ", prepared before"),
                       .ours = make_strided(count, prepare_too),
                       .reference = make_strided(1, prepare_too),
                       .aim = {.ratio_at_least = kTheSame}});
    }
  }
  bench.measure({.title = "a transfer of one strided descriptor",
                 .ours = "make_transfer() of all of it, and letting it go; per transfer",
                 .reference = "the same of one extent"},
                std::move(cases));
}

void measure_prepare(Bench& bench) {
  std::vector<Case> cases;
  for (const std::uint64_t regions : {1, 1024}) {
    const auto pools = std::make_shared<Pools>(PoolShape{.blocks = 65536, .regions = regions});
    const auto prepare = [pools](const DescriptorList& list) {
      return timed(pools->clock(), {[pools, list](std::uint64_t times) {
                                      while (times-- > 0)
                                        must(pools->agent().prepare_remote(pools->peer(), list));
                                    },
                                    static_cast<double>(list.size())});
    };
    cases.push_back({.name = cat("65536 blocks over ", regions, " regions, block by block"),
                     .ours = prepare(pools->blocks_there())});
    cases.push_back({.name = cat("65536 blocks over ", regions, " regions, strided"),
                     .ours = prepare(pools->strided_there())});
  }
  bench.measure({.title = "prepare_remote()",
                 .ours = "resolving a list, once for many transfers; per descriptor",
                 .reference = "none"},
                std::move(cases));
}

// ---- allocations ----

constexpr std::uint64_t kWarmUp = 100;
constexpr std::uint64_t kCounted = 1000;

Sample allocations_of(std::function<void()> once) {
  return [once = std::move(once)] {
    for (std::uint64_t i = 0; i < kWarmUp; ++i) once();
    const std::uint64_t before = allocations();
    for (std::uint64_t i = 0; i < kCounted; ++i) once();
    return static_cast<double>(allocations() - before) / kCounted;
  };
}

void finish(Transfer& transfer) {
  must(transfer.post());
  (void)transfer.ended();  // a poll
  if (transfer.wait() != Outcome::done) fail(transfer.status());
}

void measure_allocations(Bench& bench) {
  const auto pools =
      std::make_shared<Pools>(PoolShape{.blocks = 1024, .regions = 16, .block_bytes = 512});
  agent::Agent& agent = pools->agent();
  const auto make = [&agent, chosen = indices(1024, true),
                     here = must(agent.prepare(pools->blocks_here())),
                     there = must(agent.prepare_remote(pools->peer(), pools->blocks_there()))] {
    return must(agent.make_transfer(
        TransferOp::read, here, there,
        {.local = Selection::of(chosen.here), .remote = Selection::of(chosen.there)}));
  };
  Transfer kept = make();
  std::vector<Case> cases;
  const auto add = [&](const char* what, std::function<void()> once) {
    cases.push_back({.name = what,
                     .shown = Shown::count,
                     .ours = allocations_of(std::move(once)),
                     .aim = {.value_at_most = 0}});
  };
  add("make, let go", [make] { (void)make(); });
  add("make, post, wait, post again, wait, let go", [make] {
    Transfer transfer = make();
    finish(transfer);
    finish(transfer);
  });
  add("post again, poll, wait", [&kept] { finish(kept); });
  bench.measure({.title = "allocations",
                 .ours = "calls of operator new, 1024 shuffled descriptors over 16 regions, after "
                         "100 of the same; per turn",
                 .reference = "none"},
                std::move(cases));
}

int run(Options options) {
  Bench bench(std::move(options));
  measure_by_index(bench);
  measure_strided(bench);
  measure_prepare(bench);
  measure_allocations(bench);
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  auto options = towpath::bench::parse("What making a transfer costs.", {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
