// gds, held to the contract over a libcufile of the tests and memory of the host device: no GPU is
// here. What the real library does is not proven by this.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/gds/gds_backend.h>
#include <towpath/backends/gds/testing/fake_cufile.h>
#include <towpath/core/check.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/fd.h>

namespace towpath::backend::conformance {
namespace {

struct Machine {
  const backends::gds::testing::FakeCufile library;  // its streams are those of host devices
  sys::SystemClock clock;
  device::HostDriver driver{clock};
};

Registry registry_with_gds() {
  Registry registry;
  const auto machine = std::make_shared<Machine>();
  const auto open_driver = [machine]() -> Result<std::shared_ptr<device::Driver>> {
    return std::shared_ptr<device::Driver>(machine, &machine->driver);
  };
  TOWPATH_CHECK(registry.add(backends::gds::gds_type(open_driver)).ok(), "two names clash");
  return registry;
}

/// Files of the suite lie there, and libcufile wants them direct.
std::string why_not() {
  const sys::Fd file(
      ::open(testing::TempDir().c_str(), O_TMPFILE | O_DIRECT | O_RDWR | O_CLOEXEC, 0600));
  return file ? "" : "no O_DIRECT in " + testing::TempDir() + ": mount a disk there, or set TMPDIR";
}

}  // namespace

std::vector<Candidate> candidates() {
  const std::string library = backends::gds::testing::FakeCufile::path();
  Candidate threads{.name = "gds-fake",
                    .make_registry = registry_with_gds,
                    .backends = {{"gds", {{"library", library}}}},
                    .pairings = {{Store::device, Store::disk, true}},
                    .unavailable = why_not(),
                    .no_processes = "files are those of the agent itself",
                    .no_messages = "gds carries none"};
  Candidate batches = threads;
  batches.name = "gds-fake-batch";
  batches.backends = {{"gds", {{"library", library}, {"engine", "batch"}, {"thread_count", "3"}}}};
  Candidate streams = threads;
  streams.name = "gds-fake-stream";
  streams.backends = {{"gds", {{"library", library}, {"engine", "stream"}, {"thread_count", "2"}}}};
  return {std::move(threads), std::move(batches), std::move(streams)};
}

}  // namespace towpath::backend::conformance
