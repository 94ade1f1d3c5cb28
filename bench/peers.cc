// One agent and 1 to 64 peers, each a process of its own: what the others cost the one that is
// spoken to.
#include <algorithm>

#include <towpath/core/text.h>
#include <towpath/memory/shared_region.h>
#include <towpath/standard/standard.h>

#include "bench/child.h"
#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::size_t kMostPeers = 64;
constexpr std::uint64_t kBlock = kMiB;      // of what is measured in bytes a second
constexpr std::uint64_t kSmall = 4 * kKiB;  // of what is measured by the transfer
constexpr std::uint64_t kInFlight = 16;     // blocks, over all peers
constexpr std::uint64_t kPeerPool = kInFlight * kBlock;
constexpr std::size_t kSmallOnes = 500;  // of which the 50th and 99th percentile are reported

const std::vector<std::string> kBackends = {"shm", "tcp"};

/// An agent with a pool, driven by a thread of its own.
struct Side {
  explicit Side(const std::string& name, const std::string& backend)
      : node(must(standard::Node::open({.name = name, .progress_thread = true}))),
        pool(must(memory::SharedMemoryRegion::create({.name = name, .size_bytes = kPeerPool}))) {
    must(node->agent().add_backend(backend));
    known = must(node->agent().register_region(pool));
  }
  agent::Agent& agent() { return node->agent(); }

  std::unique_ptr<standard::Node> node;
  std::shared_ptr<memory::SharedMemoryRegion> pool;
  memory::Registration known;
};

std::string name_of_peer(std::size_t number) { return cat("peer-", number); }

/// Meets the peer that shows metadata.
void live(const Channel& parent, const std::string& name, const std::string& backend) {
  Side side(name, backend);
  parent.send(must(side.agent().metadata()));
  parent.send(as_bytes(std::to_string(side.pool->descriptor().address)));
  for (Bytes metadata = parent.receive(); !metadata.empty(); metadata = parent.receive()) {
    must(side.agent().load_metadata(metadata));
    parent.send(as_bytes("met"));
  }
}

struct Peer {
  std::string name;
  std::unique_ptr<Child> process;
  Bytes metadata;
  std::uint64_t address = 0;
};

/// Processes, which must be forked before this one has agents.
class Peers {
 public:
  explicit Peers(const std::string& backend) {
    for (std::size_t i = 0; i < kMostPeers; ++i) {
      const std::string name = name_of_peer(i);
      const auto life = [&](const Channel& parent) { live(parent, name, backend); };
      all.push_back({.name = name, .process = std::make_unique<Child>(life), .metadata = {}});
    }
    for (Peer& peer : all) {
      peer.metadata = peer.process->channel().receive();
      peer.address = std::stoull(std::string(as_text(peer.process->channel().receive())));
    }
  }

  std::vector<Peer> all;
};

/// An agent that knows the first `count` peers.
class Mover {
 public:
  Mover(const std::string& name, const std::string& backend, const Peers& peers, std::size_t count)
      : side_(name, backend), peers_(peers) {
    const Bytes metadata = must(side_.agent().metadata());
    for (std::size_t i = 0; i < count; ++i) {
      const Peer& peer = peers.all[i];
      must(side_.agent().load_metadata(peer.metadata));
      peer.process->channel().send(metadata);
      if (peer.process->channel().receive().empty())
        fail(error(Code::peer_lost, cat(peer.name, " is gone")));
    }
  }
  const Clock& clock() { return side_.node->clock(); }

  /// kInFlight blocks at once, dealt out to so many peers.
  Sample bandwidth(TransferOp op, std::size_t count) {
    const auto blocks = std::make_shared<std::vector<agent::Transfer>>();
    for (std::uint64_t i = 0; i < kInFlight; ++i)
      blocks->push_back(transfer(op, i % count, i * kBlock, kBlock));
    const auto body = [blocks](std::uint64_t times) {
      while (times-- > 0) {
        for (agent::Transfer& one : *blocks) must(one.post());
        for (agent::Transfer& one : *blocks) expect_done(one);
      }
    };
    return timed(clock(), {body, static_cast<double>(kInFlight * kBlock)});
  }

  /// One at a time, to so many peers in turn: that time which `percent` of them stay below.
  Sample small(std::size_t count, std::size_t percent) {
    const auto transfers = std::make_shared<std::vector<agent::Transfer>>();
    for (std::size_t i = 0; i < count; ++i)
      transfers->push_back(transfer(TransferOp::write, i, 0, kSmall));
    return [this, transfers, percent] {
      std::vector<double> times;
      for (std::size_t i = 0; i < kSmallOnes; ++i) {
        agent::Transfer& one = (*transfers)[i % transfers->size()];
        const Instant begin = clock().now();
        must(one.post());
        expect_done(one);
        times.push_back(static_cast<double>((clock().now() - begin).count()));
      }
      std::ranges::sort(times);
      return times[times.size() * percent / 100];
    };
  }

 private:
  agent::Transfer transfer(TransferOp op, std::size_t peer, std::uint64_t at, std::uint64_t size) {
    DescriptorList here(MemoryKind::system);
    DescriptorList there(MemoryKind::system);
    must(here.add(Descriptor{side_.pool->descriptor().address + at, size, 0}));
    must(there.add(Descriptor{peers_.all[peer].address + at, size, 0}));
    return must(side_.agent().create_transfer(op, here, peers_.all[peer].name, there));
  }
  static void expect_done(agent::Transfer& transfer) {
    if (transfer.wait() != Outcome::done) fail(transfer.status());
  }

  Side side_;
  const Peers& peers_;
};

void measure(Bench& bench, const std::string& backend, const Peers& peers) {
  Mover alone("alone", backend, peers, 1);
  Mover crowded("crowded", backend, peers, kMostPeers);
  std::vector<Case> cases;
  for (const std::size_t count : {1, 4, 16, 64}) {
    const std::string dealt = cat(count, count == 1 ? " peer of 64, " : " peers of 64, ");
    for (const TransferOp op : {TransferOp::write, TransferOp::read}) {
      cases.push_back({.name = cat(dealt, towpath::name_of(op), " 16 x 1 MiB"),
                       .shown = Shown::gigabytes_per_second,
                       .ours = crowded.bandwidth(op, count),
                       .reference = alone.bandwidth(op, 1)});
    }
    for (const std::size_t percent : {50, 99}) {
      cases.push_back({.name = cat(dealt, "write 4 KiB, p", percent),
                       .ours = crowded.small(count, percent),
                       .reference = alone.small(1, percent)});
    }
  }
  bench.measure({.title = cat(backend, ": many peers"),
                 .ours = "an agent that knows 64 peers, each a process",
                 .reference = "an agent that knows one of them"},
                std::move(cases));
}

int run(Options options) {
  // All processes come first: an agent does not survive a fork.
  std::vector<std::unique_ptr<Peers>> peers;
  for (const std::string& backend : kBackends) peers.push_back(std::make_unique<Peers>(backend));
  Bench bench(std::move(options));
  for (std::size_t i = 0; i < kBackends.size(); ++i) measure(bench, kBackends[i], *peers[i]);
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  auto options = towpath::bench::parse("One agent and up to 64 peers, over shm and TCP.",
                                       {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
