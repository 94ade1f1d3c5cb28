// CudaStream, CudaEvent, CudaPool: work of one GPU of CUDA. Private to this folder.
// Thread: any.
#pragma once

#include <list>
#include <memory>

#include <towpath/device/cuda/cuda_device.h>
#include <towpath/device/device.h>
#include <towpath/device/stream.h>
#include <towpath/run/mutex.h>

namespace towpath::device::cuda {

class CudaEvent final : public Event {
 public:
  static Result<std::shared_ptr<Event>> create(std::shared_ptr<CudaDevice> device,
                                               const EventOptions& options);
  CudaEvent(std::shared_ptr<CudaDevice> device, CuEvent event, bool timed)
      : device_(std::move(device)), event_(event), timed_(timed) {}
  ~CudaEvent() override;

  CuEvent get() const noexcept { return event_; }
  Result<bool> is_done() const override;
  Status wait() const override;
  Result<Duration> since(const Event& earlier) const override;

 private:
  const std::shared_ptr<CudaDevice> device_;
  CuEvent event_;
  const bool timed_;
};

/// Functions of the user's that a stream has yet to run. CUDA takes a plain pointer, and never
/// calls those behind work that failed: they are let go with the stream.
class HostFunctions {
 public:
  struct Entry {
    HostFunctions* owner = nullptr;
    HostFunction function;
    std::list<Entry>::iterator place;
  };
  Entry* add(HostFunction function);
  void remove(Entry* entry);
  /// What CUDA calls, with an Entry.
  static void run(void* entry);

 private:
  run::Mutex mutex_;
  std::list<Entry> entries_ TOWPATH_GUARDED_BY(mutex_);
};

class CudaStream final : public Stream {
 public:
  static Result<std::shared_ptr<Stream>> create(std::shared_ptr<CudaDevice> device);
  CudaStream(std::shared_ptr<CudaDevice> device, CuStream stream)
      : device_(std::move(device)), stream_(stream) {}
  ~CudaStream() override;

  CuStream get() const noexcept { return stream_; }
  Status copy(const Copy& what) override;
  Status copy_batch(std::span<const Copy> copies) override;
  Status copy_2d(const Copy2d& what) override;
  Status copy_boxes(std::span<const BoxCopy> boxes) override;
  Status fill(const Fill& what) override;
  Status write_word(const WordWrite& what) override;
  Status run(HostFunction function) override;
  Status record(Event& event) override;
  Status wait(const Event& event) override;
  Result<bool> is_idle() const override;
  Status synchronize() override;
  void* native() noexcept override { return stream_; }

 private:
  Status copy_one_by_one(std::span<const Copy> copies);
  Status copy_rows(const Copy2d& what);

  const std::shared_ptr<CudaDevice> device_;
  CuStream stream_;
  HostFunctions functions_;
};

class CudaPool final : public Pool {
 public:
  static Result<std::shared_ptr<Pool>> create(std::shared_ptr<CudaDevice> device,
                                              const PoolOptions& options);
  CudaPool(std::shared_ptr<CudaDevice> device, CuPool pool)
      : device_(std::move(device)), pool_(pool) {}
  ~CudaPool() override;

  Result<std::uint64_t> allocate(std::uint64_t size_bytes, Stream& stream) override;
  Status free(std::uint64_t address, Stream& stream) override;
  Result<PoolFigures> figures() const override;
  Status trim(std::uint64_t keep_bytes) override;

 private:
  const std::shared_ptr<CudaDevice> device_;
  CuPool pool_;
};

/// Errors: invalid_argument (of another driver).
Result<const CudaEvent*> cuda_event(const Event& event);
Result<CudaStream*> cuda_stream(Stream& stream);

}  // namespace towpath::device::cuda
