#include "bench/peer_process.h"

#include <atomic>
#include <cstring>

#include <fcntl.h>

#include <towpath/core/format.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/os_error.h>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr Duration kNap = std::chrono::seconds(1);

/// What the peer reports, in front of its metadata.
struct Offer {
  std::uint64_t shared_address = 0;
  std::uint64_t plain_address = 0;
  int memfd = -1;
};

/// The bytes of both pools: no two neighbouring words alike.
void fill(ByteSpan pool) {
  std::uint64_t word = 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i + sizeof word <= pool.size(); i += sizeof word) {
    word = word * 6364136223846793005 + 1442695040888963407;
    std::memcpy(pool.data() + i, &word, sizeof word);
  }
}

std::uint64_t& line_of(ByteSpan pool) {
  return *reinterpret_cast<std::uint64_t*>(pool.last(64).data());
}

/// What runs in the forked process.
class Peer {
 public:
  Peer(const Channel& parent, std::uint64_t pool_bytes) : channel_(parent) {
    node_ = must(
        standard::Node::open({.name = kPeerName, .backends = {"shm"}, .progress_thread = false}));
    shared_ =
        must(memory::SharedMemoryRegion::create({.name = "bench-peer", .size_bytes = pool_bytes}));
    plain_ = must(memory::SystemRegion::allocate(pool_bytes));
    fill(shared_->bytes());
    fill(plain_->bytes());
    shared_known_ = must(node_->agent().register_region(shared_));
    plain_known_ = must(node_->agent().register_region(plain_));
  }

  void run() {
    make_offer();
    while (true) {
      const Bytes order = channel_.receive();
      if (order.empty()) return;
      if (order.size() == 1)
        echo(static_cast<Waiting>(order.front()));
      else
        parent_ = must(node_->agent().load_metadata(order)).name;
    }
  }

 private:
  void make_offer() {
    const Offer offer{shared_->descriptor().address, plain_->descriptor().address,
                      shared_->descriptor().fd};
    Bytes message(sizeof offer);
    std::memcpy(message.data(), &offer, sizeof offer);
    const Bytes metadata = must(node_->agent().metadata());
    message.insert(message.end(), metadata.begin(), metadata.end());
    channel_.send(message);
  }

  void echo_line() {
    std::uint64_t& place = line_of(shared_->bytes());
    const std::uint64_t before = std::exchange(place, 0);
    const std::atomic_ref<std::uint64_t> line(place);
    channel_.send(as_bytes("ready"));
    std::uint64_t seen = 0;
    while ((seen = line.load(std::memory_order_acquire)) != PeerProcess::kEndOfLine)
      if (seen % 2 == 1) line.store(seen + 1, std::memory_order_release);
    place = before;
    channel_.send(as_bytes("restored"));
  }

  void echo(Waiting how) {
    if (how == Waiting::line) return echo_line();
    agent::Agent& agent = node_->agent();
    channel_.send(as_bytes("ready"));
    while (true) {
      if (how == Waiting::polling) agent.progress();
      const auto reported =
          how == Waiting::polling ? agent.take_notifications() : agent.wait_notifications(kNap);
      for (const agent::Notification& one : reported) {
        if (as_text(one.message) == "end") return;
        must(agent.notify(parent_, one.message));
      }
    }
  }

  const Channel& channel_;
  std::unique_ptr<standard::Node> node_;
  std::shared_ptr<memory::SharedMemoryRegion> shared_;
  std::shared_ptr<memory::SystemRegion> plain_;
  memory::Registration shared_known_;
  memory::Registration plain_known_;
  std::string parent_;
};

}  // namespace

std::unique_ptr<PeerProcess> PeerProcess::start(std::uint64_t pool_bytes) {
  std::unique_ptr<PeerProcess> peer(new PeerProcess(pool_bytes));
  peer->take_offer();
  return peer;
}

PeerProcess::PeerProcess(std::uint64_t pool_bytes)
    : child_([=](const Channel& parent) { Peer(parent, pool_bytes).run(); }),
      pool_bytes_(pool_bytes) {}

void PeerProcess::take_offer() {
  const Bytes message = child_.channel().receive();
  Offer offer;
  if (message.size() <= sizeof offer)
    fail(error(Code::peer_lost, "the peer process did not come up"));
  std::memcpy(&offer, message.data(), sizeof offer);
  metadata_.assign(message.begin() + sizeof offer, message.end());
  shared_address_ = offer.shared_address;
  plain_address_ = offer.plain_address;
  const std::string file = cat("/proc/", child_.pid(), "/fd/", offer.memfd);
  sys::Fd memfd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (memfd.get() < 0) fail(sys::os_error(errno, cat("open ", file)));
  mapped_ = must(memory::SharedMemoryRegion::map(std::move(memfd), {.size_bytes = pool_bytes_}));
}

void PeerProcess::introduce(agent::Agent& agent) const {
  must(agent.load_metadata(metadata_));
  child_.channel().send(must(agent.metadata()));
}

void PeerProcess::echo(Waiting how) const {
  const auto letter = static_cast<std::byte>(how);
  child_.channel().send({&letter, 1});
  if (child_.channel().receive().empty()) fail(error(Code::peer_lost, "the peer process is gone"));
}

std::uint64_t& PeerProcess::line() const { return line_of(mapped_->bytes()); }

void PeerProcess::end_line() const {
  std::atomic_ref<std::uint64_t>(line()).store(kEndOfLine, std::memory_order_release);
  if (child_.channel().receive().empty()) fail(error(Code::peer_lost, "the peer process is gone"));
}

}  // namespace towpath::bench
