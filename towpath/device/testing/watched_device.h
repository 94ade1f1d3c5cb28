// WatchedDevice: a device of the host driver whose copies a test holds, fails or spoils. For tests
// only: whatever it is not asked to do, the host device does. Thread: as Device; hands by one.
#pragma once

#include <atomic>
#include <memory>

#include <towpath/core/format.h>
#include <towpath/device/device.h>

namespace towpath::device::testing {

/// What a test has in hand; shared with the streams and events.
struct DeviceHands {
  // Nothing that a stream was given is done while it is held; who waits for the stream opens it.
  std::atomic<bool> is_held{false};
  std::atomic<int> fail_batches{0};    ///< so many refuse what they are given
  std::atomic<int> fail_events{0};     ///< so many say that the work has failed
  std::atomic<int> late_events{0};     ///< so many say, when asked, that it is not done yet
  std::atomic<int> spoil_arrivals{0};  ///< so many batches into the device arrive damaged
  std::atomic<std::uint64_t> batches{0}, copies{0};
  std::atomic<int> waits{0};  ///< for all that a stream was given
  std::atomic<int> kernel_questions{0};
  bool refuses_pinned = false;

  void open() {
    is_held = false;
    is_held.notify_all();
  }
};
using Hands = std::shared_ptr<DeviceHands>;

inline bool takes_one(std::atomic<int>& left) {
  int seen = left.load();
  while (seen > 0)
    if (left.compare_exchange_weak(seen, seen - 1)) return true;
  return false;
}

class WatchedEvent final : public Event {
 public:
  WatchedEvent(std::shared_ptr<Event> inner, Hands hands)
      : inner_(std::move(inner)), hands_(std::move(hands)) {}

  Result<bool> is_done() const override {
    if (takes_one(hands_->fail_events)) return error(Code::io_error, "a test's stream failed");
    if (takes_one(hands_->late_events)) return false;
    return inner_->is_done();
  }
  Status wait() const override {
    hands_->open();
    return inner_->wait();
  }
  Result<Duration> since(const Event& earlier) const override { return inner_->since(earlier); }
  Event& inner() const noexcept { return *inner_; }

 private:
  const std::shared_ptr<Event> inner_;
  const Hands hands_;
};

class WatchedStream final : public Stream {
 public:
  WatchedStream(std::shared_ptr<Stream> inner, const Device& device, Hands hands)
      : inner_(std::move(inner)), device_(device), hands_(std::move(hands)) {}
  ~WatchedStream() override { hands_->open(); }

  Status copy(const Copy& what) override { return copy_batch({&what, 1}); }
  Status copy_batch(std::span<const Copy> copies) override {
    if (takes_one(hands_->fail_batches)) return error(Code::io_error, "a test's copy failed");
    hands_->copies += copies.size();
    TOWPATH_TRY(inner_->run([hands = hands_] { hands->is_held.wait(true); }));
    TOWPATH_TRY(inner_->copy_batch(copies));
    if (is_pinned(copies.front().target) || !takes_one(hands_->spoil_arrivals)) return {};
    return inner_->fill({copies.front().target + copies.front().length / 2, 1, std::byte{0xee}});
  }
  Status copy_2d(const Copy2d& what) override { return inner_->copy_2d(what); }
  Status copy_boxes(std::span<const BoxCopy> boxes) override { return inner_->copy_boxes(boxes); }
  Status fill(const Fill& what) override { return inner_->fill(what); }
  Status write_word(const WordWrite& what) override { return inner_->write_word(what); }
  Status run(HostFunction function) override { return inner_->run(std::move(function)); }
  Status record(Event& event) override {
    ++hands_->batches;
    return inner_->record(static_cast<WatchedEvent&>(event).inner());
  }
  Status wait(const Event& event) override {
    return inner_->wait(static_cast<const WatchedEvent&>(event).inner());
  }
  Result<bool> is_idle() const override { return inner_->is_idle(); }
  Status synchronize() override {
    ++hands_->waits;
    hands_->open();
    return inner_->synchronize();
  }
  void* native() noexcept override { return inner_->native(); }

 private:
  bool is_pinned(std::uint64_t address) const;

  const std::shared_ptr<Stream> inner_;
  const Device& device_;
  const Hands hands_;
};

class WatchedDevice final : public Device {
 public:
  WatchedDevice(std::shared_ptr<Device> inner, Hands hands)
      : inner_(std::move(inner)), hands_(std::move(hands)) {}

  const DriverInfo& driver() const noexcept override { return inner_->driver(); }
  const DeviceInfo& info() const noexcept override { return inner_->info(); }
  Result<MemoryFigures> figures() const override { return inner_->figures(); }
  Result<std::unique_ptr<Current>> make_current() override { return inner_->make_current(); }
  Result<Memory> allocate(std::uint64_t size_bytes) override {
    return inner_->allocate(size_bytes);
  }
  Result<Memory> allocate_pinned(std::uint64_t size_bytes) override {
    if (hands_->refuses_pinned) return error(Code::exhausted, "a test has no pinned memory");
    auto memory = inner_->allocate_pinned(size_bytes);
    if (memory.ok()) pinned_ = {memory->address(), memory->size()};
    return memory;
  }
  Result<Memory> register_host(ByteSpan bytes) override { return inner_->register_host(bytes); }
  Result<std::shared_ptr<Stream>> create_stream() override {
    TOWPATH_TRY(auto inner, inner_->create_stream());
    return std::make_shared<WatchedStream>(std::move(inner), *this, hands_);
  }
  Result<std::shared_ptr<Event>> create_event(const EventOptions& options) override {
    TOWPATH_TRY(auto inner, inner_->create_event(options));
    return std::make_shared<WatchedEvent>(std::move(inner), hands_);
  }
  Result<std::shared_ptr<Pool>> create_pool(const PoolOptions& options) override {
    return inner_->create_pool(options);
  }
  Status has_box_kernel() override {
    ++hands_->kernel_questions;
    return inner_->has_box_kernel();
  }
  Status copy(const Copy& what) override { return inner_->copy(what); }
  Result<bool> can_reach(const Device& peer) const override { return inner_->can_reach(peer); }
  Status enable_peer(const Device& peer) override { return inner_->enable_peer(peer); }
  Result<IpcHandle> export_memory(const Memory& memory) override {
    return inner_->export_memory(memory);
  }
  Result<ExportedMemory> export_at(std::uint64_t address) override {
    return inner_->export_at(address);
  }
  Result<Memory> import_memory(const IpcHandle& handle, std::uint64_t size_bytes) override {
    return inner_->import_memory(handle, size_bytes);
  }
  Result<IpcHandle> export_event(const Event& event) override {
    return inner_->export_event(event);
  }
  Result<std::shared_ptr<Event>> import_event(const IpcHandle& handle) override {
    return inner_->import_event(handle);
  }

  bool is_pinned(std::uint64_t address) const {
    return address - pinned_.address < pinned_.size_bytes;
  }

 private:
  struct Extent {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
  };
  Status give_back(const MemoryFacts& facts) override {
    (void)facts;
    return {};  // what it gave is the host device's
  }

  const std::shared_ptr<Device> inner_;
  const Hands hands_;
  Extent pinned_;
};

inline bool WatchedStream::is_pinned(std::uint64_t address) const {
  return static_cast<const WatchedDevice&>(device_).is_pinned(address);
}

}  // namespace towpath::device::testing
