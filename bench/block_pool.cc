// BlockPool: what it costs to find, make and give back blocks, by how many there are and on how
// many threads.
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>

#include <towpath/core/format.h>
#include <towpath/kv/blocks/block_pool.h>
#include <towpath/sys/clock.h>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

using kv::BlockHash;
using kv::BlockPool;
using kv::BlockRef;
using kv::SlotId;

constexpr SlotId kPrefix = 100;         // blocks
constexpr double kMatchAimNs = 5000;    // of one prefix
constexpr std::size_t kPerSample = 64;  // prefixes

/// A pool full of prompts, beside a map of the same under one lock.
struct Filled {
  explicit Filled(SlotId blocks) : pool(must(BlockPool::make({.slots = blocks + kPrefix}))) {
    for (SlotId made = 0; made + kPrefix <= blocks; made += kPrefix) {
      prompts.emplace_back();
      for (std::size_t i = 0; i < kPrefix; ++i) {
        prompts.back().push_back(random());
        put(prompts.back().back());
        map.emplace(prompts.back().back(), static_cast<SlotId>(map.size()));
      }
    }
  }
  void put(BlockHash hash) {
    auto partial = must(pool->allocate(1));
    (void)must(
        pool->register_block(kv::CompleteBlock(std::move(partial.front()), {{hash, {}}, {}})));
  }
  /// Copies: who asks has just computed the hashes, and they are in the cache.
  std::vector<std::vector<BlockHash>> some_prompts() {
    std::vector<std::vector<BlockHash>> some(kPerSample);
    for (auto& prompt : some) prompt = prompts[random() % prompts.size()];
    return some;
  }

  std::mt19937_64 random{1};
  std::unique_ptr<BlockPool> pool;
  std::vector<std::vector<BlockHash>> prompts;
  std::unordered_map<BlockHash, SlotId> map;
  std::mutex lock;
};

double per(Duration time, double units) { return static_cast<double>(time.count()) / units; }

/// Only the finding is timed, not the letting go.
Sample match(const Clock& clock, const std::shared_ptr<Filled>& filled) {
  return [&clock, filled] {
    const auto asked = filled->some_prompts();
    std::deque<std::vector<BlockRef>> found;
    const Instant begin = clock.now();
    for (const auto& prompt : asked) found.push_back(filled->pool->match(prompt));
    return per(clock.now() - begin, kPerSample);
  };
}

Sample match_in_map(const Clock& clock, const std::shared_ptr<Filled>& filled) {
  return [&clock, filled] {
    const auto asked = filled->some_prompts();
    std::deque<std::vector<SlotId>> found;
    const Instant begin = clock.now();
    for (const auto& prompt : asked) {
      const std::lock_guard hold(filled->lock);
      std::vector<SlotId> slots;
      slots.reserve(prompt.size());
      for (const BlockHash hash : prompt) slots.push_back(filled->map.find(hash)->second);
      found.push_back(std::move(slots));
    }
    return per(clock.now() - begin, kPerSample);
  };
}

/// Allocate (which evicts), register, let go; per block.
Sample turn_over(const Clock& clock, const std::shared_ptr<Filled>& filled) {
  return timed(clock, {[filled](std::uint64_t times) {
                         while (times-- > 0) filled->put(filled->random());
                       },
                       1});
}

/// Finding and letting go on so many threads at once; nanoseconds of wall time per prefix.
Sample match_on(const Clock& clock, const std::shared_ptr<Filled>& filled, unsigned threads) {
  return [&clock, filled, threads] {
    std::vector<std::thread> all;
    const Instant begin = clock.now();
    for (unsigned i = 0; i < threads; ++i) {
      all.emplace_back([filled, i] {
        std::mt19937_64 random(i);
        for (std::size_t n = 0; n < 20 * kPerSample; ++n)
          (void)filled->pool->match(filled->prompts[random() % filled->prompts.size()]);
      });
    }
    for (std::thread& thread : all) thread.join();
    return per(clock.now() - begin, static_cast<double>(20 * kPerSample * threads));
  };
}

/// New blocks in a full pool, made by so many threads at once; nanoseconds of wall time per block.
Sample turn_over_on(const Clock& clock, const std::shared_ptr<Filled>& filled, unsigned threads) {
  constexpr std::uint64_t kEach = 20'000;
  return [&clock, filled, threads] {
    const std::uint64_t salt = filled->random();
    std::vector<std::thread> all;
    const Instant begin = clock.now();
    for (unsigned i = 0; i < threads; ++i) {
      all.emplace_back([filled, seed = salt + i] {
        std::mt19937_64 random(seed);
        for (std::uint64_t n = 0; n < kEach; ++n) filled->put(random());
      });
    }
    for (std::thread& thread : all) thread.join();
    return per(clock.now() - begin, static_cast<double>(kEach * threads));
  };
}

int run(Options options) {
  const sys::SystemClock clock;
  Bench bench(std::move(options));
  std::vector<Case> matches, turns, threads, turning_threads;
  const SlotId most = bench.options().effort == Effort::full ? 10'000'000 : 1'000'000;
  std::shared_ptr<Filled> filled;
  for (SlotId blocks = 1000; blocks <= most; blocks *= 10) {
    filled = std::make_shared<Filled>(blocks);
    matches.push_back({.name = cat(blocks, " blocks"),
                       .ours = match(clock, filled),
                       .reference = match_in_map(clock, filled),
                       .aim = {.value_at_most = kMatchAimNs}});
    turns.push_back({.name = cat(blocks, " blocks"),
                     .ours = turn_over(clock, std::make_shared<Filled>(blocks))});
  }
  for (const unsigned count : {1U, 2U, 4U})
    threads.push_back({.name = cat(count, " threads"),
                       .ours = match_on(clock, filled, count),
                       .reference = match_on(clock, filled, 1)});
  const auto turned = std::make_shared<Filled>(100'000);
  for (const unsigned count : {1U, 2U, 4U})
    turning_threads.push_back({.name = cat(count, " threads"),
                               .ours = turn_over_on(clock, turned, count),
                               .reference = turn_over_on(clock, turned, 1)});
  bench.measure({.title = "match() of a prefix of 100 blocks that are all there",
                 .ours = "BlockPool::match(), with a reference taken on each block; per prefix",
                 .reference = "looking them up in a std::unordered_map under one lock"},
                std::move(matches));
  bench.measure({.title = "a new block in a full pool",
                 .ours = "evict, allocate, register, let go; per block",
                 .reference = ""},
                std::move(turns));
  bench.measure({.title = "match() and let go on several threads",
                 .ours = "wall time per prefix of 100 blocks",
                 .reference = "one thread"},
                std::move(threads));
  bench.measure({.title = "a new block in a full pool of 100,000, on several threads",
                 .ours = "wall time per block: evict, allocate, register, let go",
                 .reference = "one thread"},
                std::move(turning_threads));
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  auto options = towpath::bench::parse("What BlockPool costs.", {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
