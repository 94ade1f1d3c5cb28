// One small transfer, one notification, or a transfer that is only made, after the other, between
// two agents of this process and by one thread: what a program that counts instructions runs.
//
//   valgrind --tool=callgrind build/release/bench/small read|write|notify|make COUNT [tcp|loopback
//   [tls]]
#include <cstdlib>
#include <iostream>
#include <string>

#include <towpath/agent/agent.h>
#include <towpath/core/check.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/clock.h>

namespace towpath {
namespace {

constexpr std::uint64_t kBlockBytes = 4 * kKiB;
constexpr std::uint64_t kBlocks = 64;

struct Side {
  Side(const std::string& name, const Clock& clock, const backend::Registry& registry,
       const std::string& backend, const backend::Params& params)
      : agent(agent::Agent::create({.name = name, .registry = &registry, .clock = &clock}).value()),
        memory(memory::SystemRegion::allocate(kBlocks * kBlockBytes).value()) {
    TOWPATH_CHECK(agent->add_backend(backend, params).ok(), "it is always there");
    pool = agent->register_region(memory).value();
  }
  DescriptorList blocks(std::uint64_t count) const {
    DescriptorList list(MemoryKind::system);
    for (std::uint64_t i = 0; i < count; ++i) {
      const Status added =
          list.add(Descriptor{memory->descriptor().address + i * kBlockBytes, kBlockBytes, 0});
      TOWPATH_CHECK(added.ok(), "it is of the region");
    }
    return list;
  }

  std::unique_ptr<agent::Agent> agent;
  memory::SharedRegion memory;
  memory::Registration pool;
};

}  // namespace
}  // namespace towpath

int main(int argc, char** argv) {
  using namespace towpath;  // NOLINT: the words of this function
  if (argc < 3) {
    std::cerr << "usage: small read|write|notify|make COUNT [tcp|loopback [tls]]\n";
    return 2;
  }
  const std::string what = argv[1];
  const std::string backend = argc > 3 ? argv[3] : "tcp";
  const backend::Params params =
      argc > 4 ? backend::Params{{"security", argv[4]}} : backend::Params{};
  const sys::SystemClock clock;
  const backend::Registry registry = standard::make_registry();
  Side near("near", clock, registry, backend, params);
  Side far("far", clock, registry, backend, params);
  TOWPATH_CHECK(near.agent->load_metadata(*far.agent->metadata()).ok(), "they are of one release");
  TOWPATH_CHECK(far.agent->load_metadata(*near.agent->metadata()).ok(), "they are of one release");
  const auto op = what == "write" ? TransferOp::write : TransferOp::read;
  auto transfer = near.agent->create_transfer(op, near.blocks(1), "far", far.blocks(1)).value();
  const auto here = near.agent->prepare(near.blocks(kBlocks)).value();
  const auto there = near.agent->prepare_remote("far", far.blocks(kBlocks)).value();
  const auto turn = [&] {
    near.agent->progress();
    far.agent->progress();
  };
  const auto move = [&] {
    TOWPATH_CHECK(transfer.post().ok(), "a peer of this process lives");
    while (!transfer.ended()) turn();
    TOWPATH_CHECK(transfer.outcome() == Outcome::done, "a peer of this process lives");
  };
  const auto notify = [&] {
    const auto text = as_bytes("as long as vLLM's: 40 bytes of text ....");
    TOWPATH_CHECK(near.agent->notify("far", text).ok(), "a peer of this process lives");
    while (far.agent->take_notifications().empty()) turn();
  };
  for (std::uint64_t i = std::strtoull(argv[2], nullptr, 10); i > 0; --i) {
    if (what == "notify")
      notify();
    else if (what == "make")
      TOWPATH_CHECK(near.agent->make_transfer(op, here, there).ok(), "their lists are equal");
    else
      move();
  }
  return 0;
}
