// Copies of KV blocks within memory: plan and execute, beside memcpy of as many bytes.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include <towpath/blockcopy/box_copy.h>
#include <towpath/core/text.h>
#include <towpath/kv/digest.h>
#include <towpath/layout/box_plan.h>
#include <towpath/sys/clock.h>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

using layout::BlockFormat;
using layout::BlockRange;
using layout::Layout;
using layout::LayoutConfig;
using layout::LayoutKind;

constexpr double kHalf = 0.5;

/// A cache whose memory is there, and touched.
struct Cache {
  Cache(const LayoutConfig& config, LayoutKind kind) {
    layout::LayoutDescriptor made{.config = config, .kind = kind};
    const auto sizes = must(layout::Geometry::make(config, kind)).required_sizes();
    memory.assign(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}), std::byte{1});
    std::uint64_t offset = 0;
    for (const std::uint64_t size : sizes) {
      made.regions.push_back({address_of(memory.data()) + offset, size});
      regions.push_back(ByteSpan(memory).subspan(offset, size));
      offset += size;
    }
    layout = std::make_unique<Layout>(must(Layout::make(std::move(made))));
  }
  Bytes memory;
  std::vector<ByteSpan> regions;
  std::unique_ptr<Layout> layout;
};

struct Shape {
  const char* name;
  LayoutConfig config;
};

/// As consumers of caches have them: layers, heads and dims are theirs; so many blocks of 16
/// tokens.
std::vector<Shape> shapes(std::uint64_t share) {
  const auto shape = [&](const char* name, std::uint64_t tokens, LayoutConfig config) {
    config.page_size = 16;
    config.num_blocks = std::max<std::uint64_t>(tokens / 16 / share, 8);
    return Shape{name, config};
  };
  return {
      shape("S gpt-oss-20b", 1024 * share,
            {.num_layers = 24, .outer_dim = 2, .inner_dim = 512, .num_heads = 8}),
      shape("M llama-8b", 4096,
            {.num_layers = 32, .outer_dim = 2, .inner_dim = 1024, .num_heads = 8}),
      shape("L llama-70b of TP 8", 4096,
            {.num_layers = 80, .outer_dim = 2, .inner_dim = 128, .num_heads = 1}),
      shape("X deepseek MLA", 16384,
            {.num_layers = 61, .outer_dim = 1, .inner_dim = 576, .num_heads = 1}),
  };
}

/// Every source block once; `scattered` of 100 of them anywhere.
std::vector<BlockRange> blocks_of(std::uint64_t count, unsigned scattered) {
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count * scattered / 100),
               std::mt19937(1));
  std::vector<BlockRange> blocks;
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool goes_on =
        !blocks.empty() && blocks.back().source_first + blocks.back().count == order[i];
    if (goes_on)
      ++blocks.back().count;
    else
      blocks.push_back({order[i], i, 1});
  }
  return blocks;
}

struct Sides {
  Sides(const LayoutConfig& from, LayoutKind source_kind, const LayoutConfig& to,
        LayoutKind target_kind, unsigned scattered)
      : source(from, source_kind),
        target(to, target_kind),
        blocks(blocks_of(from.num_blocks, scattered)) {}
  Cache source;
  Cache target;
  std::vector<BlockRange> blocks;

  std::uint64_t bytes() const { return must(source.layout->config().payload_bytes()); }
  void copy() {
    const layout::BoxPlan plan = must(plan_boxes(*source.layout, *target.layout, blocks));
    must(blockcopy::copy_boxes(plan, {source.regions, target.regions}));
  }
  void copy_plainly() { std::memcpy(target.memory.data(), source.memory.data(), bytes()); }
};

Case case_of(const Clock& clock, std::string name, const std::shared_ptr<Sides>& sides) {
  const auto units = static_cast<double>(sides->bytes());
  return {.name = std::move(name),
          .shown = Shown::gigabytes_per_second,
          .ours = timed(clock, {[sides](std::uint64_t times) {
                                  while (times-- > 0) sides->copy();
                                },
                                units}),
          .reference = timed(clock, {[sides](std::uint64_t times) {
                                       while (times-- > 0) sides->copy_plainly();
                                     },
                                     units}),
          .aim = {.ratio_at_least = kHalf}};
}

constexpr const char* kReference = "memcpy of as many bytes";

void measure_shapes(Bench& bench, const Clock& clock, std::uint64_t share) {
  for (const Shape& shape : shapes(share)) {
    std::vector<Case> cases;
    for (const unsigned scattered : {0u, 50u, 100u}) {
      const auto sides =
          std::make_shared<Sides>(shape.config, LayoutKind::layer_separate_block_second,
                                  shape.config, LayoutKind::fully_contiguous, scattered);
      cases.push_back(case_of(clock, cat(shape.name, ", ", scattered, " % scattered"), sides));
    }
    bench.measure({.title = cat("plan and copy, layers apart to together, ", shape.name),
                   .ours = "plan_boxes() and copy_boxes(), one thread",
                   .reference = kReference},
                  std::move(cases));
  }
}

void measure_permutes(Bench& bench, const Clock& clock, std::uint64_t share) {
  const LayoutConfig config = shapes(share)[1].config;
  struct Pair {
    BlockFormat source, target;
  };
  std::vector<Case> cases;
  for (const Pair& pair :
       {Pair{BlockFormat::nhd, BlockFormat::hnd}, Pair{BlockFormat::hnd, BlockFormat::nhd},
        Pair{BlockFormat::nhd, BlockFormat::universal},
        Pair{BlockFormat::universal, BlockFormat::nhd},
        Pair{BlockFormat::hnd, BlockFormat::universal}}) {
    LayoutConfig from = config;
    LayoutConfig to = config;
    from.format = pair.source;
    to.format = pair.target;
    const auto sides = std::make_shared<Sides>(from, LayoutKind::fully_contiguous, to,
                                               LayoutKind::fully_contiguous, 0);
    cases.push_back(case_of(clock, cat(name_of(pair.source), " to ", name_of(pair.target)), sides));
  }
  bench.measure({.title = "permute blocks of llama-8b",
                 .ours = "plan_boxes() and copy_boxes(), one thread",
                 .reference = kReference},
                std::move(cases));
}

/// What proving costs, beside copying: of bytes that the caches hold, and of bytes that they do
/// not.
void measure_digests(Bench& bench, const Clock& clock) {
  const auto bytes = std::make_shared<Bytes>(64 * kMiB, std::byte{1});
  const auto copy = std::make_shared<Bytes>(64 * kMiB, std::byte{2});
  std::vector<Case> cases;
  for (const auto algorithm : {kv::DigestAlgorithm::xxh3_64, kv::DigestAlgorithm::crc32c})
    for (const std::uint64_t size : {64 * kKiB, kMiB, 64 * kMiB}) {
      const auto part = ConstByteSpan(*bytes).first(size);
      const auto digest = [bytes, part, algorithm](std::uint64_t times) {
        for (kv::Digest last; times-- > 0;) last = kv::digest_of(part, last.value, algorithm);
      };
      const auto plainly = [bytes, copy, size](std::uint64_t times) {
        while (times-- > 0) std::memcpy(copy->data(), bytes->data(), size);
      };
      const auto units = static_cast<double>(size);
      cases.push_back({.name = cat(name_of(algorithm), " of ", format_bytes(size)),
                       .shown = Shown::gigabytes_per_second,
                       .ours = timed(clock, {digest, units}),
                       .reference = timed(clock, {plainly, units})});
    }
  bench.measure(
      {.title = "digest of a block", .ours = "digest_of(), one thread", .reference = kReference},
      std::move(cases));
}

int run(Options options) {
  const sys::SystemClock clock;
  Bench bench(std::move(options));
  const std::uint64_t share = bench.options().effort == Effort::full ? 1 : 8;
  measure_permutes(bench, clock, share);
  measure_shapes(bench, clock, share);
  measure_digests(bench, clock);
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  auto options = towpath::bench::parse("What copies of blocks cost.", {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
