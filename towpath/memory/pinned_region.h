// PinnedRegion: host memory that a GPU reaches directly.
//
// It comes from the GPU's driver, or is any host region that is registered with it: huge pages on
// the right NUMA node, a file that several processes map, memory of the user's.
// Invariants: unregistered before the memory is let go. If the driver refuses to unregister, the
// memory is kept for the life of the process, and the log says so: a GPU must not write into pages
// that belong to somebody else.
// Thread: immutable.
#pragma once

#include <memory>
#include <string_view>

#include <towpath/core/result.h>
#include <towpath/device/device.h>
#include <towpath/memory/region.h>
#include <towpath/telemetry/log.h>

namespace towpath::memory {

class PinnedRegion final : public Region {
  struct Private {};

 public:
  /// The driver's own. Errors: invalid_argument (size 0, no device), exhausted, denied; the
  /// driver's as the cause.
  static Result<std::shared_ptr<PinnedRegion>> allocate(std::shared_ptr<device::Device> device,
                                                        std::uint64_t size_bytes);
  /// Registers all of `base`, which must be host memory, and keeps it alive.
  /// Errors: invalid_argument (no base, no device), unsupported (a kind that is not the host's),
  /// already_exists (it is pinned), denied; the driver's as the cause.
  static Result<std::shared_ptr<PinnedRegion>> pin(SharedRegion base,
                                                   std::shared_ptr<device::Device> device,
                                                   const telemetry::Log& log = {});

  PinnedRegion(Private, SharedRegion base, device::Memory memory, telemetry::Log log)
      : base_(std::move(base)), memory_(std::move(memory)), log_(std::move(log)) {}
  ~PinnedRegion() override;

  RegionDescriptor descriptor() const override;
  /// Where the device itself finds the bytes.
  std::uint64_t device_address() const noexcept { return memory_.device_address(); }
  const std::shared_ptr<device::Device>& device() const noexcept { return memory_.device(); }
  /// What was pinned; null: the driver's own memory.
  const SharedRegion& base() const noexcept { return base_; }

 private:
  SharedRegion base_;
  device::Memory memory_;
  telemetry::Log log_;
};

}  // namespace towpath::memory
