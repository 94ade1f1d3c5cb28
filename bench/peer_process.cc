#include "bench/peer_process.h"

#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/text.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/os_error.h>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr std::size_t kMaxMessage = 64 * 1024;
constexpr Duration kNap = std::chrono::seconds(1);

/// What the peer tells, in front of its card.
struct Offer {
  std::uint64_t shared_address = 0;
  std::uint64_t plain_address = 0;
  int memfd = -1;
};

void send(int channel, ConstByteSpan bytes) {
  if (::write(channel, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    fail(sys::os_error(errno, "write to the other process"));
}

/// One message; empty when the other process is gone.
Bytes receive(int channel) {
  Bytes bytes(kMaxMessage);
  const ssize_t size = ::read(channel, bytes.data(), bytes.size());
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return bytes;
}

/// The bytes of both pools: no two neighbouring words alike.
void fill(ByteSpan pool) {
  std::uint64_t word = 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i + sizeof word <= pool.size(); i += sizeof word) {
    word = word * 6364136223846793005 + 1442695040888963407;
    std::memcpy(pool.data() + i, &word, sizeof word);
  }
}

/// What runs in the forked process.
class Peer {
 public:
  Peer(int channel, std::uint64_t pool_bytes) : channel_(channel) {
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

  int run() {
    make_offer();
    while (true) {
      const Bytes order = receive(channel_);
      if (order.empty()) return 0;
      if (order.size() == 1)
        echo(static_cast<Waiting>(order.front()));
      else
        parent_ = must(node_->agent().load_card(order)).name;
    }
  }

 private:
  void make_offer() {
    const Offer offer{shared_->descriptor().address, plain_->descriptor().address,
                      shared_->descriptor().fd};
    Bytes message(sizeof offer);
    std::memcpy(message.data(), &offer, sizeof offer);
    const Bytes card = must(node_->agent().card());
    message.insert(message.end(), card.begin(), card.end());
    send(channel_, message);
  }

  void echo(Waiting how) {
    agent::Agent& agent = node_->agent();
    send(channel_, as_bytes("ready"));
    while (true) {
      if (how == Waiting::polling) agent.progress();
      const auto told =
          how == Waiting::polling ? agent.take_notifications() : agent.wait_notifications(kNap);
      for (const agent::Notification& one : told) {
        if (as_text(one.message) == "end") return;
        must(agent.notify(parent_, one.message));
      }
    }
  }

  int channel_;
  std::unique_ptr<standard::Node> node_;
  std::shared_ptr<memory::SharedMemoryRegion> shared_;
  std::shared_ptr<memory::SystemRegion> plain_;
  memory::Registration shared_known_;
  memory::Registration plain_known_;
  std::string parent_;
};

}  // namespace

std::unique_ptr<PeerProcess> PeerProcess::start(std::uint64_t pool_bytes) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    fail(sys::os_error(errno, "socketpair"));
  std::unique_ptr<PeerProcess> peer(new PeerProcess());
  peer->pool_bytes_ = pool_bytes;
  peer->pid_ = ::fork();
  if (peer->pid_ < 0) fail(sys::os_error(errno, "fork"));
  if (peer->pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    ::_exit(Peer(ends[1], pool_bytes).run());
  }
  ::close(ends[1]);
  peer->channel_ = sys::Fd(ends[0]);
  peer->take_offer();
  return peer;
}

void PeerProcess::take_offer() {
  const Bytes message = receive(channel_.get());
  Offer offer;
  if (message.size() <= sizeof offer)
    fail(error(Code::peer_lost, "the peer process did not come up"));
  std::memcpy(&offer, message.data(), sizeof offer);
  card_.assign(message.begin() + sizeof offer, message.end());
  shared_address_ = offer.shared_address;
  plain_address_ = offer.plain_address;
  const std::string file = cat("/proc/", pid_, "/fd/", offer.memfd);
  sys::Fd memfd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (memfd.get() < 0) fail(sys::os_error(errno, cat("open ", file)));
  mapped_ = must(memory::SharedMemoryRegion::map(std::move(memfd), {.size_bytes = pool_bytes_}));
}

void PeerProcess::introduce(agent::Agent& agent) const {
  must(agent.load_card(card_));
  send(channel_.get(), must(agent.card()));
}

void PeerProcess::echo(Waiting how) const {
  const auto letter = static_cast<std::byte>(how);
  send(channel_.get(), {&letter, 1});
  if (receive(channel_.get()).empty()) fail(error(Code::peer_lost, "the peer process is gone"));
}

PeerProcess::~PeerProcess() {
  channel_ = sys::Fd();  // it reads the end of it, and ends
  int status = 0;
  ::waitpid(pid_, &status, 0);
}

}  // namespace towpath::bench
