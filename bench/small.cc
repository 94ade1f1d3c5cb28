// One small transfer, or one notification, after the other over tcp, between two agents of this
// process and by one thread: what a program that counts instructions runs.
//
//   valgrind --tool=callgrind build/release/bench/small read|write|notify COUNT [BYTES [tls]]
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

struct Side {
  Side(const std::string& name, const Clock& clock, const backend::Registry& registry,
       const backend::Params& params, std::uint64_t bytes)
      : agent(agent::Agent::create({.name = name, .registry = &registry, .clock = &clock}).value()),
        memory(memory::SystemRegion::allocate(bytes).value()) {
    TOWPATH_CHECK(agent->add_backend("tcp", params).ok(), "tcp is always there");
    pool = agent->register_region(memory).value();
  }
  DescriptorList whole() const {
    DescriptorList list(MemoryKind::system);
    const Status added = list.add(Descriptor{memory->descriptor().address, memory->size(), 0});
    TOWPATH_CHECK(added.ok(), "it is a region");
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
    std::cerr << "usage: small read|write|notify COUNT [BYTES [tls]]\n";
    return 2;
  }
  const std::string what = argv[1];
  const std::uint64_t bytes = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 4 * kKiB;
  const backend::Params params =
      argc > 4 ? backend::Params{{"security", argv[4]}} : backend::Params{};
  const sys::SystemClock clock;
  const backend::Registry registry = standard::make_registry();
  Side near("near", clock, registry, params, bytes);
  Side far("far", clock, registry, params, bytes);
  TOWPATH_CHECK(near.agent->load_metadata(*far.agent->metadata()).ok(), "they are of one release");
  TOWPATH_CHECK(far.agent->load_metadata(*near.agent->metadata()).ok(), "they are of one release");
  auto transfer = near.agent
                      ->create_transfer(what == "write" ? TransferOp::write : TransferOp::read,
                                        near.whole(), "far", far.whole())
                      .value();
  const auto turn = [&] {
    near.agent->progress();
    far.agent->progress();
  };
  for (std::uint64_t i = std::strtoull(argv[2], nullptr, 10); i > 0; --i) {
    const bool is_note = what == "notify";
    const Status begun =
        is_note ? near.agent->notify("far", as_bytes("as long as vLLM's: 40 bytes of text ...."))
                : transfer.post();
    TOWPATH_CHECK(begun.ok(), "a peer of this process lives");
    if (is_note) {
      while (far.agent->take_notifications().empty()) turn();
    } else {
      while (!transfer.ended()) turn();
      TOWPATH_CHECK(transfer.outcome() == Outcome::done, "a peer of this process lives");
    }
  }
  return 0;
}
