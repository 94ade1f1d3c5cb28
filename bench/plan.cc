// plan(): its time grows with runs, not with blocks.
#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include <towpath/core/format.h>
#include <towpath/layout/plan.h>
#include <towpath/sys/clock.h>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

using layout::BlockPair;
using layout::BlockRange;
using layout::Layout;
using layout::LayoutKind;

// "Costs the same", with room for noise.
constexpr double kTheSame = 0.9;
constexpr std::uint64_t kFewest = 100;

/// llama-3.1-8b: 32 layers, 8 heads of 128, blocks of 16 tokens. No memory stands behind it.
Layout layout_of(std::uint64_t blocks, LayoutKind kind, std::uint64_t base) {
  layout::LayoutDescriptor made;
  made.config = {
      .num_blocks = blocks, .num_layers = 32, .outer_dim = 2, .page_size = 16, .inner_dim = 1024};
  made.kind = kind;
  for (const std::uint64_t size :
       must(layout::Geometry::make(made.config, kind)).required_sizes()) {
    made.regions.push_back({base, size});
    base += size;
  }
  return must(Layout::make(std::move(made)));
}

struct Sides {
  Sides(std::uint64_t blocks, LayoutKind source_kind, LayoutKind target_kind)
      : source(layout_of(blocks, source_kind, 0)),
        target(layout_of(blocks, target_kind, std::uint64_t{1} << 60U)) {}
  Layout source;
  Layout target;
};

/// Plans all blocks, as one range; per plan.
Sample whole(const Clock& clock, std::uint64_t blocks, LayoutKind target) {
  const auto sides = std::make_shared<Sides>(blocks, LayoutKind::fully_contiguous, target);
  const auto body = [sides, ranges = std::vector<BlockRange>{{0, 0, blocks}}](std::uint64_t times) {
    while (times-- > 0)
      must(plan(sides->source, sides->target, std::span<const BlockRange>(ranges)));
  };
  return timed(clock, {body, 1});
}

/// Plans `blocks` pairs in random order; per run of the plan.
Sample scattered(const Clock& clock, std::uint64_t blocks) {
  const auto kind = LayoutKind::fully_contiguous;
  const auto sides = std::make_shared<Sides>(blocks, kind, kind);
  std::vector<std::uint64_t> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, std::mt19937(1));
  std::vector<BlockPair> pairs;
  for (std::uint64_t i = 0; i < blocks; ++i) pairs.push_back({order[i], i});
  const auto once = [sides, pairs = std::move(pairs)] {
    return must(plan(sides->source, sides->target, std::span<const BlockPair>(pairs)));
  };
  const auto runs = static_cast<double>(once().runs().size());
  return timed(clock, {[once](std::uint64_t times) {
                         while (times-- > 0) once();
                       },
                       runs});
}

void measure_whole(Bench& bench, const Clock& clock) {
  struct Target {
    LayoutKind kind;
    const char* name;
  };
  const Target targets[] = {{LayoutKind::fully_contiguous, "to fully contiguous"},
                            {LayoutKind::layer_separate_block_first, "to layers, block first"},
                            {LayoutKind::layer_separate_block_second, "to layers, block second"}};
  std::vector<Case> cases;
  for (const Target& target : targets) {
    for (std::uint64_t blocks = kFewest * 10; blocks <= 1'000'000; blocks *= 10) {
      cases.push_back({.name = cat(blocks, " blocks ", target.name),
                       .ours = whole(clock, blocks, target.kind),
                       .reference = whole(clock, kFewest, target.kind),
                       .aim = {.ratio_at_least = kTheSame}});
    }
  }
  bench.measure({.title = "plan() of a range of blocks: as many runs, more blocks",
                 .ours = "plan() of a whole cache, 32 layers; per plan",
                 .reference = cat("plan() of ", kFewest, " blocks")},
                std::move(cases));
}

void measure_scattered(Bench& bench, const Clock& clock) {
  std::vector<Case> cases;
  const std::uint64_t most = bench.options().effort == Effort::full ? 1'000'000 : 100'000;
  for (std::uint64_t blocks = kFewest; blocks <= most; blocks *= 10) {
    cases.push_back({.name = cat(blocks, " scattered blocks"),
                     .ours = scattered(clock, blocks),
                     .reference = scattered(clock, kFewest)});
  }
  bench.measure({.title = "plan() of blocks in random order: as many runs as blocks",
                 .ours = "plan() between two contiguous caches; per run",
                 .reference = cat("the same with ", kFewest, " blocks (n log n: they are sorted)")},
                std::move(cases));
}

int run(Options options) {
  const sys::SystemClock clock;
  Bench bench(std::move(options));
  measure_whole(bench, clock);
  measure_scattered(bench, clock);
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  auto options = towpath::bench::parse("What plan() costs.", {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
