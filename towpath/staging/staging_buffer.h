// StagingBuffer: host memory that device memory is staged through, and the streams that copy.
//
// Pinned where the driver gives it; else plain pages, which copy slower and are reported. A backend
// has it registered as any user's memory. Invariants: the streams die first, and wait for their
// copies. Thread: immutable.
#pragma once

#include <memory>
#include <string>

#include <towpath/core/bytes.h>
#include <towpath/core/memory_kind.h>
#include <towpath/device/device.h>
#include <towpath/sys/mapping.h>

namespace towpath::staging {

class StagingBuffer {
 public:
  /// Errors: exhausted; the driver's.
  static Result<StagingBuffer> make(std::shared_ptr<device::Device> device,
                                    std::uint64_t size_bytes);

  /// pinned or system.
  MemoryKind kind() const noexcept { return pinned_ ? MemoryKind::pinned : MemoryKind::system; }
  std::uint64_t address() const noexcept { return address_of(bytes_.data()); }
  std::uint64_t size() const noexcept { return bytes_.size(); }
  /// Why it is not pinned; empty: it is.
  const std::string& refusal() const noexcept { return refusal_; }

  device::Device& device() const noexcept { return *device_; }
  device::Stream& to_device() const noexcept { return *to_device_; }
  device::Stream& to_host() const noexcept { return *to_host_; }

 private:
  std::shared_ptr<device::Device> device_;
  device::Memory pinned_;
  sys::Mapping plain_;
  ByteSpan bytes_;
  std::string refusal_;
  std::shared_ptr<device::Stream> to_device_;
  std::shared_ptr<device::Stream> to_host_;
};

}  // namespace towpath::staging
