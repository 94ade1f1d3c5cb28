// The drives of the virtual machine, by the serial numbers that run_guest.py gives them, and what
// the tests in it share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/registry.h>
#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/nvme/kernel_driver.h>
#include <towpath/core/format.h>
#include <towpath/core/testing/random_bytes.h>
#include <towpath/sys/mapping.h>

namespace towpath::guest {

inline constexpr std::uint64_t kMiB = 1U << 20U;

struct Drive {
  std::string controller;  ///< "nvme2"
  std::string generic;     ///< "/dev/ng2n1"
  std::string block;       ///< "/dev/nvme2n1"
  std::string pci;         ///< "/sys/class/nvme/nvme2/device"
};

/// Waits until the drive with this serial number is there; fails the test when it does not come.
Drive drive_called(const std::string& serial);
/// Whether this machine has one at all. For tests that belong to another machine.
bool has_drive(const std::string& serial);

/// What the block layer reads there, past the page cache: a witness that is not ours.
Bytes read_block_device(const std::string& path, std::uint64_t offset, std::uint64_t length);

/// A backend `nvme` over the kernel's driver, and page-aligned memory to move from and to.
class Mover {
 public:
  explicit Mover(const backend::Params& params = {});
  ~Mover();

  /// Registers memory besides the own.
  void use_memory(ByteSpan bytes);
  Status use(const std::string& path, const char* mode, std::uint64_t offset, std::uint64_t length);
  backend::Segment segment(std::uint64_t at, std::uint64_t offset, std::uint64_t length) const {
    return {local.get(), imported.get(), address_of(memory.data()) + at, offset, length};
  }
  backend::testing::RecordedCompletion move(TransferOp op,
                                            const std::vector<backend::Segment>& segments);
  /// Until the operation has ended.
  void run(const backend::Operation& operation);
  std::uint64_t moved(const char* path, const char* op);

  backend::testing::RecordingEvents events;
  telemetry::Metrics metrics;
  std::shared_ptr<backends::nvme::Driver> driver = backends::nvme::kernel_driver();
  sys::Mapping mapping;
  ByteSpan memory;
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<backend::Connection> connection;
  std::unique_ptr<backend::Memory> local, registered, imported;
};

}  // namespace towpath::guest
