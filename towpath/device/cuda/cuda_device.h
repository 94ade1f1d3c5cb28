// CudaDevice: one GPU of CUDA, with its primary context retained. Private to this folder.
// Thread: any.
#pragma once

#include <memory>

#include <towpath/device/cuda/cuda_kernel.h>
#include <towpath/device/cuda/cuda_library.h>
#include <towpath/device/device.h>

namespace towpath::device::cuda {

/// While this lives, graphs that are being captured are no obstacle to this thread. What we do is
/// part of none of them; but in a thread's usual mode a capture by any other thread of the process
/// fails a query of an event, and the query the capture.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const CudaLibrary& cuda)
      : cuda_(cuda), exchanged_(cuda.call().exchange_capture_mode(&mode_) == kSuccess) {}
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    if (exchanged_) (void)cuda_.call().exchange_capture_mode(&mode_);
  }

 private:
  const CudaLibrary& cuda_;
  int mode_ = kCaptureRelaxed;  // then that of before
  const bool exchanged_;
};

/// The primary context, retained while this lives.
class PrimaryContext {
 public:
  static Result<PrimaryContext> retain(std::shared_ptr<const CudaLibrary> cuda, unsigned ordinal);
  PrimaryContext(PrimaryContext&&) noexcept = default;
  PrimaryContext& operator=(PrimaryContext&&) = delete;
  ~PrimaryContext();

  const CudaLibrary& cuda() const noexcept { return *cuda_; }
  CuDevice device() const noexcept { return device_; }
  CuContext get() const noexcept { return context_; }

 private:
  PrimaryContext(std::shared_ptr<const CudaLibrary> cuda, CuDevice device, CuContext context)
      : cuda_(std::move(cuda)), device_(device), context_(context) {}

  std::shared_ptr<const CudaLibrary> cuda_;  // null: moved from
  CuDevice device_;
  CuContext context_;
};

/// A context is current on this thread for a scope.
class CurrentScope final : public Current {
 public:
  explicit CurrentScope(const PrimaryContext& context);
  ~CurrentScope() override;
  /// Whether it is.
  const Status& status() const noexcept { return status_; }

 private:
  const CudaLibrary& cuda_;
  const RelaxedCapture capture_{cuda_};
  Status status_;
};

class CudaDevice final : public Device {
 public:
  static Result<std::shared_ptr<CudaDevice>> open(std::shared_ptr<const CudaLibrary> cuda,
                                                  DriverInfo driver, DeviceInfo info);
  CudaDevice(PrimaryContext context, DriverInfo driver, DeviceInfo info)
      : context_(std::move(context)), driver_(std::move(driver)), info_(std::move(info)) {}
  ~CudaDevice() override;

  const PrimaryContext& context() const noexcept { return context_; }
  const CudaLibrary& cuda() const noexcept { return context_.cuda(); }
  /// Of a copy in two dimensions.
  std::uint64_t max_pitch() const noexcept { return max_pitch_; }
  /// Whether it reaches registered host memory at the host's own addresses, as all but virtual GPUs
  /// do. Else only calls that CUDA translates for may be given those: copies one by one.
  bool reaches_host_addresses() const noexcept { return reaches_host_addresses_; }
  /// Loaded once has_box_kernel() said so.
  const BoxKernel& box_kernel() const noexcept { return kernel_; }

  const DriverInfo& driver() const noexcept override { return driver_; }
  const DeviceInfo& info() const noexcept override { return info_; }
  Result<MemoryFigures> figures() const override;
  Result<std::unique_ptr<Current>> make_current() override;

  Result<Memory> allocate(std::uint64_t size_bytes) override;
  Result<Memory> allocate_pinned(std::uint64_t size_bytes) override;
  Result<Memory> register_host(ByteSpan bytes) override;

  Result<std::shared_ptr<Stream>> create_stream() override;
  Result<std::shared_ptr<Event>> create_event(const EventOptions& options) override;
  Result<std::shared_ptr<Pool>> create_pool(const PoolOptions& options) override;

  Status has_box_kernel() override;
  Status copy(const Copy& what) override;
  Result<bool> can_reach(const Device& peer) const override;
  Status enable_peer(const Device& peer) override;

  Result<IpcHandle> export_memory(const Memory& memory) override;
  Result<ExportedMemory> export_at(std::uint64_t address) override;
  Result<Memory> import_memory(const IpcHandle& handle, std::uint64_t size_bytes) override;
  Result<IpcHandle> export_event(const Event& event) override;
  Result<std::shared_ptr<Event>> import_event(const IpcHandle& handle) override;

 private:
  static std::uint64_t max_pitch_of(const PrimaryContext& context);
  static bool has_host_addresses(const PrimaryContext& context);
  Status give_back(const MemoryFacts& facts) override;
  CuResult free_by_origin(const MemoryFacts& facts) const;
  /// Pinned memory, with the device's own address of it.
  Result<Memory> pinned(MemoryFacts facts);

  const PrimaryContext context_;
  const DriverInfo driver_;
  const DeviceInfo info_;
  const std::uint64_t max_pitch_ = max_pitch_of(context_);
  const bool reaches_host_addresses_ = has_host_addresses(context_);
  CuStream copies_ = nullptr;  // for copy()
  BoxKernel kernel_{context_.cuda(), context_.device()};
};

}  // namespace towpath::device::cuda
