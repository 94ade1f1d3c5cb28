// nvme, held to the contract on namespaces that are fakes: no machine of ours has a drive to spare.
// What a drive and the kernel really do is proven in tests/qemu.
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/backends/nvme/nvme_backend.h>
#include <towpath/backends/nvme/testing/fake_driver.h>
#include <towpath/core/check.h>

namespace towpath::backend::conformance {
namespace {

using backends::nvme::testing::FakeDriver;
using backends::nvme::testing::FakeShape;

std::function<Registry()> registry_of(const FakeShape& shape) {
  return [shape] {
    Registry registry;
    const auto fake = std::make_shared<FakeDriver>(shape);
    TOWPATH_CHECK(registry.add(backends::nvme::nvme_type(fake)).ok(), "two names clash");
    TOWPATH_CHECK(registry.add(backends::loopback::loopback_type()).ok(), "two names clash");
    return registry;
  };
}

}  // namespace

std::vector<Candidate> candidates() {
  Candidate nvme{
      .name = "nvme-fake",
      .make_registry = registry_of({}),
      .backends = {{"nvme", {}}},
      .pairings = {{Store::system, Store::block, true}, {Store::shared, Store::block, true}},
      .unavailable = {},
      .no_processes = "namespaces are those of the agent itself",
      .no_messages = "nvme carries none"};
  Candidate long_blocks = nvme;
  long_blocks.name = "nvme-fake-4k";
  long_blocks.make_registry = registry_of({.block_bytes = 4096, .max_transfer_bytes = 8192});
  long_blocks.pairings = {{Store::system, Store::block, true}};
  Candidate with_loopback = nvme;
  with_loopback.name = "nvme-fake+loopback";
  with_loopback.backends = {{"nvme", {{"depth", "3"}}}, {"loopback", {}}};
  with_loopback.pairings = {{Store::system, Store::block, true}};
  with_loopback.no_messages = {};
  return {std::move(nvme), std::move(long_blocks), std::move(with_loopback)};
}

}  // namespace towpath::backend::conformance
