// Blocks of a peer process, borrowed over UCX's TCP and proven, beside a transfer of the same
// bytes.
#include <csignal>
#include <numeric>
#include <string>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/text.h>
#include <towpath/kv/connector/tiered_keeper.h>
#include <towpath/layout/builder.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/standard.h>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr std::uint64_t kLoad = 32 * kMiB;  // bytes that are borrowed together
constexpr double kProvenAim = 0.97;         // the digests take at most 3 percent
constexpr const char* kOwner = "owner";

/// A keeper of blocks on an agent over UCX, which is heard by its peers while others are measured.
struct Side {
  Side(const std::string& name, std::uint64_t block_bytes, std::uint64_t blocks)
      : node(must(standard::Node::open({.name = name, .backends = {"loopback"}}))) {
    must(node->agent().add_backend("ucx", {{"transports", "tcp"}}));
    manager = must(kv::TransferManager::create({.agent = &node->agent(), .clock = &node->clock()}));
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
                                  .patience = std::chrono::seconds(20)}}));
  }

  std::unique_ptr<standard::Node> node;
  std::unique_ptr<kv::TransferManager> manager;
  std::unique_ptr<kv::TieredKeeper> keeper;
};

void send(int channel, ConstByteSpan bytes) {
  if (::write(channel, bytes.data(), bytes.size()) < 0) std::exit(1);
}
Bytes receive(int channel) {
  Bytes bytes(128 * kKiB);
  const ssize_t size = ::read(channel, bytes.data(), bytes.size());
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return bytes;
}

/// The other process: keeps two loads of blocks, 1 and up, and lends them.
[[noreturn]] void lend(int channel, std::uint64_t block_bytes) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::uint64_t blocks = 2 * kLoad / block_bytes;
  Side side(kOwner, block_bytes, blocks);
  const layout::PhysicalLayout& memory = side.keeper->memory();
  for (kv::BlockHash hash = 1; hash <= blocks; ++hash) {
    auto slot = must(side.keeper->room(1));
    for (std::uint64_t layer = 0; layer < memory.config().num_layers; ++layer)
      std::ranges::fill(must(memory.bytes({.block = slot.front().slot(), .layer = layer})),
                        static_cast<std::byte>(hash));
    must(side.keeper->keep(std::move(slot.front()), hash));
  }
  send(channel, must(side.keeper->peers()->catalogue()));
  send(channel, as_bytes(std::to_string(memory.regions().front()->descriptor().address)));
  must(side.keeper->peers()->learn(receive(channel)));
  for (;;)
    if (!side.keeper->progress()) side.manager->wait_for_work(std::chrono::milliseconds(1));
}

class Borrower {
 public:
  /// Forks, so all are made before any is used.
  explicit Borrower(std::uint64_t block_bytes) : block_(block_bytes) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0 || (child_ = ::fork()) < 0)
      fail(error(Code::exhausted, "no second process"));
    if (child_ == 0) lend(ends[1], block_);
    channel_ = ends[0];
  }
  ~Borrower() {
    transfer_.reset();
    (void)known_.release();
    side_.reset();  // it has left before its peer dies
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Borrower(const Borrower&) = delete;
  Borrower& operator=(const Borrower&) = delete;

  void meet() {
    side_ = std::make_unique<Side>("borrower", block_, count());
    must(side_->keeper->peers()->learn(receive(channel_)));
    const std::uint64_t theirs = std::stoull(std::string(as_text(receive(channel_))));
    send(channel_, must(side_->keeper->peers()->catalogue()));
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
  Repeated borrow() {
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
  pid_t child_ = -1;
  int channel_ = -1;
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
  std::vector<std::unique_ptr<Borrower>> borrowers;
  for (const std::uint64_t block : {64 * kKiB, kMiB, 4 * kMiB})
    borrowers.push_back(std::make_unique<Borrower>(block));
  Bench bench(std::move(options));
  std::vector<Case> cases;
  for (const auto& borrower : borrowers) {
    borrower->meet();
    const Timed ours = timed_with_processors(borrower->clock(), borrower->borrow());
    const Timed reference = timed_with_processors(borrower->clock(), borrower->move());
    cases.push_back({.name = cat(borrower->count(), " x ", format_bytes(kLoad / borrower->count())),
                     .shown = Shown::gigabytes_per_second,
                     .ours = ours.sample,
                     .reference = reference.sample,
                     .aim = {.ratio_at_least = kProvenAim},
                     .processors = {ours.processors, reference.processors}});
  }
  bench.measure({.title = "blocks of a peer over TCP",
                 .ours = "hold(): asked for, lent, pulled, proven by XXH3-64 and let go",
                 .reference = "one transfer of the same bytes, which proves nothing"},
                std::move(cases));
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  auto options = towpath::bench::parse("Blocks of a peer, borrowed over UCX and proven.",
                                       {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
