// Copies of KV blocks within memory: plan and execute, beside memcpy of as many bytes.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include <towpath/blockcopy/box_copy.h>
#include <towpath/core/format.h>
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

/// Bytes that begin at a page, as blocks do.
struct Pages {
  Pages(std::uint64_t bytes, std::byte value) : memory(bytes + kPage, value) {
    const std::uint64_t missing = (kPage - address_of(memory.data()) % kPage) % kPage;
    all = ByteSpan(memory).subspan(missing, bytes);
  }
  static constexpr std::uint64_t kPage = 4 * kKiB;
  Bytes memory;
  ByteSpan all;
};

/// Blocks that are copied one after the other through memory far larger than the caches, or again
/// and again the first one.
struct Copies {
  explicit Copies(std::uint64_t bytes) : source(bytes, std::byte{1}), target(bytes, std::byte{2}) {}
  Pages source, target;
  std::uint64_t place = 0;

  struct Block {
    ByteSpan to;
    ConstByteSpan from;
  };
  Block next(std::uint64_t size, bool from_memory) {
    if (from_memory) place = place + 2 * size <= source.all.size() ? place + size : 0;
    const std::uint64_t at = from_memory ? place : 0;
    return {target.all.subspan(at, size), source.all.subspan(at, size)};
  }
};

struct Way {
  const char* name;
  void (*go)(Copies::Block block, kv::Digest& last);
};

void copy_alone(Copies::Block block, kv::Digest& last) {
  std::memcpy(block.to.data(), block.from.data(), block.from.size());
  (void)last;
}
void digest_alone(Copies::Block block, kv::Digest& last) {
  last = kv::digest_of(block.from, last.value, last.algorithm);
}
void copy_then_digest(Copies::Block block, kv::Digest& last) {
  copy_alone(block, last);
  last = kv::digest_of(block.to, last.value, last.algorithm);
}
void copy_and_digest(Copies::Block block, kv::Digest& last) {
  last = kv::copy_and_digest(block.to, block.from, last.value, last.algorithm);
}

constexpr Way kCopyAlone{"copy", copy_alone}, kDigestAlone{"digest", digest_alone},
    kCopyThenDigest{"copy, then digest", copy_then_digest},
    kCopyAndDigest{"copy_and_digest()", copy_and_digest};
constexpr std::uint64_t kDigestedSizes[] = {16 * kKiB, 64 * kKiB, kMiB, 4 * kMiB};

/// What proving costs, beside copying: of bytes that the caches hold, and of bytes that they do
/// not.
class DigestCosts {
 public:
  DigestCosts(const Clock& clock, kv::DigestAlgorithm algorithm, bool from_memory,
              std::shared_ptr<Copies> copies)
      : clock_(clock),
        algorithm_(algorithm),
        from_memory_(from_memory),
        copies_(std::move(copies)) {}

  void measure(Bench& bench) const {
    // At most 1.05 times the copy, and 1.1 times the slower of both.
    constexpr double kOfCopy = 0.95, kOfSlower = 0.91;
    const std::string what =
        cat(", ", name_of(algorithm_), ", bytes from ", from_memory_ ? "memory" : "the caches");
    std::vector<Case> beside_copy, beside_slower;
    for (const std::uint64_t size : kDigestedSizes) {
      for (const Way& way : {kCopyAlone, kDigestAlone, kCopyThenDigest})
        beside_copy.push_back(of(way, size, sample(kCopyAlone, size)));
      beside_copy.push_back(of(kCopyAndDigest, size, sample(kCopyAlone, size)));
      if (from_memory_ && size >= 64 * kKiB) beside_copy.back().aim = {.ratio_at_least = kOfCopy};
      const auto slower = [copy = sample(kCopyAlone, size), digest = sample(kDigestAlone, size)] {
        return std::max(copy(), digest());
      };
      beside_slower.push_back(of(kCopyAndDigest, size, slower));
      beside_slower.back().aim = {.ratio_at_least = kOfSlower};
    }
    bench.measure({.title = cat("digest of a block beside a copy", what),
                   .ours = "one thread",
                   .reference = kReference},
                  std::move(beside_copy));
    if (from_memory_) return;
    bench.measure({.title = cat("digest of a block beside the slower of both", what),
                   .ours = "one thread",
                   .reference = "memcpy or digest_of(), whichever takes longer"},
                  std::move(beside_slower));
  }

 private:
  Sample sample(const Way& way, std::uint64_t size) const {
    const auto body = [copies = copies_, go = way.go, size, from_memory = from_memory_,
                       algorithm = algorithm_](std::uint64_t times) {
      for (kv::Digest last{.algorithm = algorithm}; times-- > 0;)
        go(copies->next(size, from_memory), last);
    };
    return timed(clock_, {body, static_cast<double>(size)});
  }
  Case of(const Way& way, std::uint64_t size, Sample reference) const {
    return {.name = cat(format_bytes(size), ", ", way.name),
            .shown = Shown::gigabytes_per_second,
            .ours = sample(way, size),
            .reference = std::move(reference)};
  }

  const Clock& clock_;
  const kv::DigestAlgorithm algorithm_;
  const bool from_memory_;
  const std::shared_ptr<Copies> copies_;
};

void measure_digests(Bench& bench, const Clock& clock) {
  const auto copies = std::make_shared<Copies>(256 * kMiB);
  for (const auto algorithm : {kv::DigestAlgorithm::xxh3_64, kv::DigestAlgorithm::crc32c})
    for (const bool from_memory : {true, false})
      DigestCosts(clock, algorithm, from_memory, copies).measure(bench);
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
