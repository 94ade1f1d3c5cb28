// The drivers that the conformance suite is run for, by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/testing/random_bytes.h>
#include <towpath/device/driver.h>

namespace towpath::device::conformance {

/// "host", "fake_cuda" (the table over a library of the tests), "cuda" (this machine's GPUs).
std::vector<std::string> candidates();

/// Errors: not_found (no such name), or why the machine has none.
Result<std::unique_ptr<Driver>> open_candidate(const std::string& name);

/// Opens the driver and its first device; skipped with the reason where there is none.
class DeviceConformance : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
  /// What the suite leaves behind is as it was found.
  void TearDown() override;

  std::unique_ptr<Driver> driver_;
  std::shared_ptr<Device> device_;
};

/// What the other process of ipc_test.cc does: waits for the event, looks at the bytes, and writes
/// others. 0, or which step failed.
int use_from_outside(const char* driver_name, const char* memory_hex, const char* event_hex);

}  // namespace towpath::device::conformance
