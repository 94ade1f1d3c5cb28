// ucx_device, held to the contract over a UCX that was built with CUDA (`./dev ucx-cuda` fetches
// one). Where the machine has no GPU a libcuda of the tests emulates the driver, for us and for
// UCX: then what a GPU or a network adapter does is not proven, but the real UCX is given a
// GPU's memory, moves it, and asks the driver for it. The memory of the suite is its host device's;
// with --gpu, the GPU's.
#include <cstdlib>
#include <string>
#include <vector>

#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/messages/message_backend.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/testing/real_gpu.h>
#include <towpath/net/ucx/ucx_worker.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::backend::conformance {
namespace {

std::string fetched_ucx() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  return cat(cache != nullptr ? cache : cat(home != nullptr ? home : "", "/.cache"),
             "/towpath/ucx-cuda/libucx/lib/libucp.so.0");
}

/// Loads what has to be there before UCX is looked for. What is missing; empty: nothing.
std::string load() {
  std::vector<std::string> names;
  if (!device::testing::why_no_gpu().empty()) names = {TOWPATH_FAKE_LIBCUDA, TOWPATH_FAKE_LIBNVML};
  names.push_back(fetched_ucx());
  for (const std::string& name : names) {
    const auto library = sys::DynamicLibrary::open(name);
    if (!library.ok())
      return cat(library.status().message(), ": `./dev ucx-cuda` fetches a UCX with CUDA");
  }
  return {};
}

Result<std::shared_ptr<device::Driver>> open_driver() {
  TOWPATH_TRY(auto driver, device::CudaDriver::open());  // the one that was loaded
  return std::shared_ptr<device::Driver>(std::move(driver));
}

Registry registry_with_ucx() {
  Registry registry;
  TOWPATH_CHECK(registry.add(backends::messages::ucx_device_type({.open = open_driver})).ok(),
                "an empty registry refuses nothing");
  return registry;
}

std::string why_unavailable() {
  if (std::string missing = load(); !missing.empty()) return missing;
  const Finding found = net::probe_ucx_devices();
  return found.verdict == Verdict::yes ? "" : found.reason + "; " + found.hint;
}

}  // namespace

std::vector<Candidate> candidates() {
  static const std::string kUnavailable = why_unavailable();
  Candidate host{
      .name = "ucx-device",
      .make_registry = registry_with_ucx,
      .backends = {{"ucx_device", {}}},
      .pairings = {{Store::device, Store::system, false}, {Store::device, Store::shared, false}},
      .unavailable = kUnavailable,
      .no_processes = {},
      .no_messages = {}};
  Candidate devices = host;
  devices.name = "ucx-device-devices";
  devices.pairings = {{Store::device, Store::device, false}, {Store::system, Store::device, false}};
  devices.no_processes = "the suite's peers in other processes have host memory only";
  return {std::move(host), std::move(devices)};
}

}  // namespace towpath::backend::conformance
