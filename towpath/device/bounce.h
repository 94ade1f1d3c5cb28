// Bounce: what stands between a device and everybody else: host memory in slots, and a stream that
// copies between the two.
//
//   BounceSlots   take() --> held by one user --> give_back()
//   CopyStream    give(work) --> in order on the device's stream --> its event, or wait
//
// Staged transfers, a cache's copies of blocks, frames of messages and copies between peers on one
// host have their pipelines of their own (what waits for what differs), over these two. Direct I/O
// has its aligned buffers from slots without a device. docs/decisions/0080 says why no more is
// shared. Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/memory_kind.h>
#include <towpath/device/device.h>
#include <towpath/sys/mapping.h>

namespace towpath::device {

/// Slots of host memory: pinned where the driver gives it; else plain pages, which copy slower.
/// Bounded: a user that finds none waits until one comes back. Invariants: outlives what it gave
/// out.
class BounceSlots {
 public:
  struct Size {
    std::uint64_t slots = 0;
    std::uint64_t slot_bytes = 0;
  };

  BounceSlots() = default;  ///< none
  /// Page-aligned; `device` null: plain pages are what is wanted. Errors: invalid_argument (more
  /// bytes than there are addresses, or none), exhausted.
  static Result<BounceSlots> make(Device* device, Size size);
  /// Pinned, or none: plain pages would hold up a device's other work. Errors: as make(); exhausted
  /// because of what the driver says.
  static Result<BounceSlots> make_pinned(Device& device, Size size);

  /// pinned or system.
  MemoryKind kind() const noexcept { return pinned_ ? MemoryKind::pinned : MemoryKind::system; }
  ByteSpan bytes() const noexcept { return bytes_; }
  const Size& size() const noexcept { return size_; }
  /// Why it is not pinned; ok: it is, or was not to be.
  const Status& refusal() const noexcept { return refusal_; }

  /// slot_bytes long, with what its last user left; empty: none is free.
  ByteSpan take() noexcept;
  /// One that take() gave.
  void give_back(ByteSpan slot) noexcept { free_.push_back(slot); }

 private:
  static Result<std::uint64_t> bytes_of(Size size);
  void divide(ByteSpan bytes, Size size);

  Memory pinned_;
  sys::Mapping plain_;
  ByteSpan bytes_;
  Size size_;
  Status refusal_;
  std::vector<ByteSpan> free_;  // has room for all
};

/// A stream of a device, made when it is first given work, and made anew after work of it failed: a
/// driver answers for one that failed with that failure for good.
class CopyStream {
 public:
  CopyStream() = default;  ///< of no device: to be assigned
  explicit CopyStream(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// Calls work(stream), which gives it copies and records events. When it fails or throws, nothing
  /// that was given before moves afterwards. Errors: the work's; the device's.
  template <typename Work>
  Status give(Work work) {
    TOWPATH_TRY(Stream * stream, get());
    DropUnlessGiven unless(*this);
    return unless.keep_if_ok(work(*stream));
  }
  /// Copies all, and waits: afterwards none moves, whatever is returned. Errors: the driver's; some
  /// may have been copied.
  Status copy_and_wait(std::span<const Copy> copies);
  /// Waits until nothing of it moves, and is a new one for what comes next. For an event that
  /// failed, and for an end.
  void drop() noexcept;

 private:
  class DropUnlessGiven {
   public:
    explicit DropUnlessGiven(CopyStream& stream) : stream_(&stream) {}
    ~DropUnlessGiven() {
      if (stream_ != nullptr) stream_->drop();
    }
    Status keep_if_ok(Status status) {
      if (status.ok()) stream_ = nullptr;
      return status;
    }

   private:
    CopyStream* stream_;  // null: its work was given
  };

  Result<Stream*> get();

  std::shared_ptr<Device> device_;
  std::shared_ptr<Stream> stream_;  // null: not yet, or the last one failed
};

}  // namespace towpath::device
