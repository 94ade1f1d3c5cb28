// PinnedRegion: host memory that a GPU reaches directly. PinnedAllocator: how it is got.
//
// It comes from the GPU's driver, or is any host region that is registered with it: huge pages on
// the right NUMA node, a file that several processes map, memory of the user's.
// Invariants: unregistered before the memory is let go. If the driver refuses to unregister, the
// memory is kept for the life of the process, and the log says so: a GPU must not write into pages
// that belong to somebody else.
// Thread: immutable, but the allocator any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/device/device.h>
#include <towpath/memory/node_workers.h>
#include <towpath/memory/region.h>
#include <towpath/run/mutex.h>
#include <towpath/sys/huge_pages.h>
#include <towpath/telemetry/log.h>

namespace towpath {
class MeasuredChoice;
}

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

enum class PinMethod : std::uint8_t { driver, mapped };
inline constexpr std::size_t kPinMethods = 2;

/// "driver", "mapped".
std::string_view name_of(PinMethod method) noexcept;

struct PinnedOptions {
  std::optional<PinMethod> method;  ///< nothing: measured
  /// For the mapped way. With `required`, the driver's way is never taken.
  sys::HugePages huge_pages = sys::HugePages::best_effort;
  std::optional<unsigned> node;  ///< nothing: the device's own, where the machine reports it
  unsigned touch_threads = 0;    ///< 0: as many as the node has, at most 16
  Duration touch_timeout{0};     ///< 0: by the size (node_workers.h)
  /// What is tried, and from which size on a choice is measured. Smaller ones come from the driver.
  std::uint64_t trial_bytes = 64ull << 20;
  telemetry::Log log;
};

/// Pinned memory for one device, got in the way that is faster on this machine.
///
///   driver    the GPU's driver allocates (and zeroes with one thread)
///   mapped    pages of our own, huge if it can be, on the device's NUMA node, touched by standing
///             threads of that node, then registered with the driver
///
/// Which one is faster depends on machine, driver and size. The first large allocation tries both
/// with a part of it, and the log says what was measured and chosen. Thread: any.
class PinnedAllocator {
 public:
  /// `clock` must outlive it. Errors: invalid_argument (no device; the driver's way with huge pages
  /// required).
  static Result<std::unique_ptr<PinnedAllocator>> create(std::shared_ptr<device::Device> device,
                                                         const Clock& clock,
                                                         PinnedOptions options = {});
  ~PinnedAllocator();

  /// If the way that was measured as faster fails, the other is tried, and the log says so.
  /// Errors: invalid_argument (size 0), or those of the way, of both as causes.
  Result<std::shared_ptr<PinnedRegion>> allocate(std::uint64_t size_bytes);

  /// Between the ways, each by its number, for `trial_bytes`. Nothing before the first large
  /// allocation, or when the way was given. For those that include core/measured_choice.h; the log
  /// reports it, too.
  std::optional<MeasuredChoice> measurement() const;
  const std::shared_ptr<device::Device>& device() const noexcept { return device_; }

 private:
  PinnedAllocator(std::shared_ptr<device::Device> device, const Clock& clock,
                  PinnedOptions options);

  Result<std::shared_ptr<PinnedRegion>> allocate_by(PinMethod method, std::uint64_t size_bytes);
  std::optional<Duration> time_of(PinMethod method, std::uint64_t size_bytes);
  MeasuredChoice measure();
  PinMethod method_for(std::uint64_t size_bytes);

  const std::shared_ptr<device::Device> device_;
  const Clock& clock_;
  const PinnedOptions options_;
  NodeWorkers workers_;
  mutable run::Mutex mutex_;
  std::unique_ptr<const MeasuredChoice> measured_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::memory
