// How long an engine's thread is in its connector in a step that saves, or loads, 16 blocks of
// 1 MiB, over a tier of files: where the tiers have a thread, beside the same engine driving them
// by hand.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/connector_node.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/temporary_directory.h>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr std::uint64_t kBlocks = 16, kLayers = 16;
constexpr std::uint64_t kGenerations = 3;  // of blocks: in memory there is room for two

layout::LayoutConfig engine_config() {
  return {.num_blocks = kBlocks,
          .num_layers = kLayers,
          .outer_dim = 2,
          .page_size = 16,
          .inner_dim = 1024,
          .dtype_width_bytes = 2,
          .num_heads = 8};
}

/// What of a step is timed.
enum class Part { all, begin, take };

class Engine {
 public:
  Engine(const Clock& clock, const std::string& directory, bool by_hand)
      : clock_(clock), by_hand_(by_hand) {
    standard::ConnectorNodeOptions options{.name_space = "bench",
                                           .config = engine_config(),
                                           .host_blocks = (kGenerations - 1) * kBlocks,
                                           .directory = directory,
                                           .disk_bytes = kGiB,
                                           .background = !by_hand};
    const std::uint64_t layer_bytes = must(options.config.payload_bytes()) / kLayers;
    for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
      options.caches.push_back(must(memory::SystemRegion::allocate(layer_bytes)));
      std::memset(options.caches.back()->bytes().data(), 7, layer_bytes);
    }
    node_ = must(standard::ConnectorNode::open(options));
    for (std::uint64_t i = 0; i < kGenerations; ++i) (void)save(Part::all);
  }

  /// Nanoseconds of the engine's thread.
  double save(Part part) {
    const double took = step(part, {.saves = {order(++generation_)}});
    settle();
    return took;
  }
  /// What the files alone have.
  double load(Part part) {
    const double took = step(part, {.loads = {order(generation_ - kGenerations + 1)}});
    settle();
    (void)save(Part::all);
    return took;
  }

 private:
  static kv::RequestOrder order(std::uint64_t generation) {
    kv::RequestOrder one{.request = "a"};
    for (std::uint64_t i = 0; i < kBlocks; ++i)
      one.blocks.push_back({1000 * generation + i + 1, i});
    return one;
  }
  template <class Work>
  Duration timed(Work work) {
    const Instant begin = clock_.now();
    node_->call(work);
    return clock_.now() - begin;
  }
  double step(Part part, const kv::StepOrders& orders) {
    const Duration began =
        timed([&](kv::ConnectorWorker& worker) { must(worker.start_step(orders)); });
    const Duration layers = timed([&](kv::ConnectorWorker& worker) {
      for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
        must(worker.wait_for_layer_load(layer));
        must(worker.save_layer(layer));
      }
      worker.wait_for_save();
    });
    const Duration took = timed([&](kv::ConnectorWorker& worker) {
      (void)worker.take_finished();
      (void)worker.take_report();
      while (by_hand_ && worker.progress()) {
      }
    });
    const Duration of = part == Part::begin  ? began
                        : part == Part::take ? took
                                             : began + layers + took;
    return static_cast<double>(of.count());
  }
  /// Until all is in files, as while an engine computes.
  void settle() {
    must(node_->call([](kv::ConnectorWorker& worker) { return worker.sync(); }));
  }

  const Clock& clock_;
  const bool by_hand_;
  std::unique_ptr<standard::ConnectorNode> node_;
  std::uint64_t generation_ = 0;
};

int run(Options options, const std::string& where) {
  if (options.rounds == 0) options.rounds = options.rounds_or(5, 15, 51);
  const sys::SystemClock clock;
  const auto here = must(sys::TemporaryDirectory::create(where));
  const auto engine = std::make_shared<Engine>(clock, here.file("thread"), false);
  const auto by_hand = std::make_shared<Engine>(clock, here.file("by-hand"), true);
  Bench bench(std::move(options));
  for (const auto& [name, go] : {std::pair{"saves", &Engine::save}, {"loads", &Engine::load}}) {
    std::vector<Case> cases;
    for (const auto& [what, part] : {std::pair{"the whole step", Part::all},
                                     {"start_step()", Part::begin},
                                     {"take_finished(), take_report()", Part::take}})
      cases.push_back(
          {.name = what,
           .ours = [=, its_part = part, step = go] { return ((*engine).*step)(its_part); },
           .reference = [=, its_part = part, step = go] { return ((*by_hand).*step)(its_part); }});
    bench.measure(
        {.title = cat("a step that ", name, " 16 blocks of 1 MiB"),
         .ours = "time of the engine's thread in its connector; the tiers have a thread",
         .reference = "the same without one: progress() after take_report(), until nothing moves"},
        std::move(cases));
  }
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  std::string where = "/var/tmp";
  auto options = towpath::bench::parse("What a connector costs an engine's thread.", {argc, argv},
                                       status, {{"--dir", "where files are made (2 GiB)", &where}});
  return options ? towpath::bench::run(*std::move(options), where) : status;
}
