// Blocks of a peer process, leased over TCP and proven, beside a transfer of the same
// bytes.
#include <numeric>
#include <string>

#include <sys/resource.h>

#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/core/format.h>
#include <towpath/kv/connector/tiered_keeper.h>
#include <towpath/kv/peers/peer_leases.h>
#include <towpath/layout/builder.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/standard.h>

#include "bench/child.h"
#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr std::uint64_t kLoad = 32 * kMiB;  // bytes that are leased together
constexpr double kProvenAim = 0.97;         // the digests take at most 3 percent
constexpr const char* kOwner = "owner";

/// A keeper of blocks on an agent over TCP, which is heard by its peers while others are measured.
struct Side {
  Side(const std::string& name, std::uint64_t block_bytes, std::uint64_t blocks)
      : node(must(standard::Node::open({.name = name, .backends = {"loopback"}}))) {
    must(node->agent().add_backend("tcp"));
    manager = must(
        blockcopy::TransferManager::create({.agent = &node->agent(), .clock = &node->clock()}));
    const layout::LayoutConfig config{.num_blocks = blocks,
                                      .num_layers = 8,
                                      .outer_dim = 2,
                                      .page_size = 16,
                                      .inner_dim = block_bytes / 512};
    keeper = must(kv::TieredKeeper::make(
        {.clock = &node->clock(),
         .memory =
             must(layout::build_layout({.registrar = &manager->registrar(),
                                        .config = config,
                                        .kind = layout::LayoutKind::fully_contiguous,
                                        .memory = memory::Allocation{.kind = MemoryKind::system}})),
         .peers = kv::KeeperPeers{.agent = &node->agent(),
                                  .manager = manager.get(),
                                  .name_space = "bench",
                                  .timeout = std::chrono::seconds(20)}}));
  }

  std::unique_ptr<standard::Node> node;
  std::unique_ptr<blockcopy::TransferManager> manager;
  std::unique_ptr<kv::TieredKeeper> keeper;
};

/// The other process: keeps two loads of blocks, 1 and up, and grants them.
[[noreturn]] void grant(const Channel& parent, std::uint64_t block_bytes) {
  const std::uint64_t blocks = 2 * kLoad / block_bytes;
  Side side(kOwner, block_bytes, blocks);
  const layout::PhysicalLayout& memory = side.keeper->memory();
  for (kv::BlockHash hash = 1; hash <= blocks; ++hash) {
    auto slot = must(side.keeper->room(1, 0));
    for (std::uint64_t layer = 0; layer < memory.config().num_layers; ++layer)
      std::ranges::fill(must(memory.bytes({.block = slot.front().slot(), .layer = layer})),
                        static_cast<std::byte>(hash));
    must(side.keeper->keep(std::move(slot.front()), {.hash = hash}));
  }
  parent.send(must(side.keeper->peers()->catalogue()));
  parent.send(as_bytes(std::to_string(memory.regions().front()->descriptor().address)));
  must(side.keeper->peers()->learn(parent.receive()));
  for (;;)
    if (!side.keeper->progress()) side.manager->wait_for_work(std::chrono::milliseconds(1));
}

class Borrower {
 public:
  /// Forks, so all are made before any is used.
  explicit Borrower(std::uint64_t block_bytes)
      : block_(block_bytes),
        child_([block_bytes](const Channel& parent) { grant(parent, block_bytes); }) {}

  void meet() {
    const Channel& owner = child_.channel();
    side_ = std::make_unique<Side>("lessee", block_, count());
    must(side_->keeper->peers()->learn(owner.receive()));
    const std::uint64_t theirs = std::stoull(std::string(as_text(owner.receive())));
    owner.send(must(side_->keeper->peers()->catalogue()));
    plain_ = must(memory::SystemRegion::allocate(kLoad));
    known_ = must(agent().register_region(plain_));
    DescriptorList here(MemoryKind::system);
    DescriptorList there(MemoryKind::system);
    must(here.add(Descriptor{plain_->descriptor().address, kLoad, 0}));
    must(there.add(Descriptor{theirs, kLoad, 0}));
    transfer_ = must(agent().create_transfer(TransferOp::read, here, kOwner, there));
  }

  std::uint64_t count() const { return kLoad / block_; }
  /// The loads in turn: there is memory for one, so each is a peer's only when its turn comes.
  Repeated lease() {
    const auto body = [this](std::uint64_t times) {
      std::vector<kv::BlockHash> hashes(count());
      while (times-- > 0) {
        std::iota(hashes.begin(), hashes.end(), std::exchange(first_, count() + 2 - first_));
        for (const auto& block : side_->keeper->hold(hashes)) must(block.status());
      }
    };
    return {body, static_cast<double>(kLoad)};
  }
  Repeated move() {
    const auto body = [this](std::uint64_t times) {
      while (times-- > 0) {
        must(transfer_->post());
        if (transfer_->wait() != Outcome::done) fail(transfer_->status());
      }
    };
    return {body, static_cast<double>(kLoad)};
  }
  const Clock& clock() const { return side_->node->clock(); }

 private:
  agent::Agent& agent() { return side_->node->agent(); }

  const std::uint64_t block_;
  Child child_;  // dies when all below has left it
  std::unique_ptr<Side> side_;
  std::shared_ptr<memory::SystemRegion> plain_;
  memory::Registration known_;
  std::optional<agent::Transfer> transfer_;
  kv::BlockHash first_ = 1;
};

/// Time on a processor of this process, which the neighbours of a busy machine leave as it is.
double processor_seconds() {
  struct ::rusage used {};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const ::timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Both of a side: how long it took, and what that took of the processors.
struct Timed {
  Sample sample;
  Sample processors;
};
Timed timed_with_processors(const Clock& clock, const Repeated& repeated) {
  const auto seconds_per_gib = std::make_shared<double>(0);
  const Repeated counted{.body =
                             [repeated, seconds_per_gib](std::uint64_t times) {
                               const double before = processor_seconds();
                               repeated.body(times);
                               *seconds_per_gib = (processor_seconds() - before) * kGiB /
                                                  (repeated.units * static_cast<double>(times));
                             },
                         .units = repeated.units};
  return {timed(clock, counted), [seconds_per_gib] { return *seconds_per_gib; }};
}

int run(Options options) {
  std::vector<std::unique_ptr<Borrower>> lessees;
  for (const std::uint64_t block : {64 * kKiB, kMiB, 4 * kMiB})
    lessees.push_back(std::make_unique<Borrower>(block));
  Bench bench(std::move(options));
  std::vector<Case> cases;
  for (const auto& lessee : lessees) {
    lessee->meet();
    const Timed ours = timed_with_processors(lessee->clock(), lessee->lease());
    const Timed reference = timed_with_processors(lessee->clock(), lessee->move());
    cases.push_back({.name = cat(lessee->count(), " x ", format_bytes(kLoad / lessee->count())),
                     .shown = Shown::gigabytes_per_second,
                     .ours = ours.sample,
                     .reference = reference.sample,
                     .aim = {.ratio_at_least = kProvenAim},
                     .processors = {ours.processors, reference.processors}});
  }
  bench.measure({.title = "blocks of a peer over TCP",
                 .ours = "hold(): asked for, granted, pulled, proven by XXH3-64 and let go",
                 .reference = "one transfer of the same bytes, which proves nothing"},
                std::move(cases));
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  auto options = towpath::bench::parse("Blocks of a peer, borrowed over TCP and proven.",
                                       {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
