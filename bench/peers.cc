// One agent and 1 to 299 peers, each a process of its own: how fast they join, and what the others
// cost the one that is spoken to.
#include <algorithm>
#include <cstdio>
#include <fstream>

#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/memory/shared_region.h>
#include <towpath/standard/standard.h>
#include <towpath/standard/stderr_sink.h>

#include "bench/child.h"
#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::size_t kMostPeers = 299;
constexpr std::uint64_t kBlock = kMiB;      // of what is measured in bytes a second
constexpr std::uint64_t kSmall = 4 * kKiB;  // of what is measured by the transfer
constexpr std::uint64_t kInFlight = 16;     // blocks, over all peers
constexpr std::uint64_t kPeerPool = kInFlight * kBlock;
constexpr std::size_t kSmallOnes = 500;  // of which the 50th and 99th percentile are reported

const std::vector<std::string> kBackends = {"shm", "tcp"};

/// An agent with a pool, driven by a thread of its own.
struct Side {
  explicit Side(const std::string& name, const std::string& backend)
      : node(must(standard::Node::open({.name = name, .log = &errors, .progress_thread = true}))),
        pool(must(memory::SharedMemoryRegion::create({.name = name, .size_bytes = kPeerPool}))) {
    must(node->agent().add_backend(backend));
    known = must(node->agent().register_region(pool));
  }
  agent::Agent& agent() { return node->agent(); }

  standard::StderrSink errors{telemetry::Level::error};  // that peers go in the end is no news
  std::unique_ptr<standard::Node> node;
  std::shared_ptr<memory::SharedMemoryRegion> pool;
  memory::Registration known;
};

std::string name_of_peer(std::size_t number) { return cat("peer-", number); }

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Meets the peer that shows metadata.
void live(const Channel& parent, const std::string& name, const std::string& backend) {
  Side side(name, backend);
  parent.send(must(side.agent().metadata()));
  parent.send(as_bytes(std::to_string(side.pool->descriptor().address)));
  for (Bytes metadata = parent.receive(); !metadata.empty(); metadata = parent.receive()) {
    const auto peer = must(side.agent().load_metadata(metadata));
    must(side.agent().notify(peer.name, as_bytes("here")));
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
    const Instant begin = clock().now();
    const std::uint64_t memory = resident_bytes();
    for (std::size_t i = 0; i < count; ++i) peers.all[i].process->channel().send(metadata);
    for (std::size_t i = 0; i < count; ++i)
      must(side_.agent().load_metadata(peers.all[i].metadata));
    for (std::size_t i = 0; i < count; ++i) {
      if (peers.all[i].process->channel().receive().empty())
        fail(error(Code::peer_lost, cat(peers.all[i].name, " is gone")));
    }
    hear_from(count);
    known_ = count;
    joined_in_ = clock().now() - begin;
    // Other memory may have been given back meanwhile.
    bytes_per_peer_ = (std::max(resident_bytes(), memory) - memory) / count;
  }
  const Clock& clock() { return side_.node->clock(); }
  std::string report() const {
    return cat(known_, " peers joined in ",
               std::chrono::duration_cast<std::chrono::milliseconds>(joined_in_).count(),
               " ms, and take ", bytes_per_peer_ / kKiB, " KiB each");
  }

  /// One call with nothing to do, beside the thread that serves.
  Sample idle() {
    return timed(clock(), {[this](std::uint64_t times) {
                             while (times-- > 0) side_.agent().progress();
                           },
                           1});
  }

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

  /// Each says a word when it has met us.
  void hear_from(std::size_t count) {
    for (std::size_t heard = 0; heard < count;) {
      const auto some = side_.agent().wait_notifications(std::chrono::seconds(60));
      if (some.empty())
        fail(error(Code::timed_out, cat(heard, " of ", count, " peers have joined")));
      heard += some.size();
    }
  }

  Side side_;
  const Peers& peers_;
  std::size_t known_ = 0;
  Duration joined_in_{0};
  std::uint64_t bytes_per_peer_ = 0;
};

void measure(Bench& bench, const std::string& backend, const Peers& peers) {
  Mover alone("alone", backend, peers, 1);
  Mover crowded("crowded", backend, peers, kMostPeers);
  std::printf("%s: %s\n", backend.c_str(), crowded.report().c_str());
  std::vector<Case> cases;
  cases.push_back(
      {.name = "progress() with nothing to do", .ours = crowded.idle(), .reference = alone.idle()});
  for (const std::size_t count : {1, 4, 16, 64}) {
    const std::string dealt = cat(count, count == 1 ? " peer, " : " peers, ");
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
                 .ours = cat("an agent that knows ", kMostPeers, " peers, each a process"),
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
  auto options = towpath::bench::parse("One agent and up to 299 peers, over shm and TCP.",
                                       {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
