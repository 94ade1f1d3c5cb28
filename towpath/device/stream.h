// Stream: work for a device, done in the order in which it was given.
//
// Giving work does not wait for it. Streams do not wait for each other but where wait() says so.
// Addresses that were given must stay until the stream has passed them; events need not.
// Invariants: what comes after work that failed may not run; synchronize() reports the failure.
// Dying, a stream first waits for its work, so that no byte moves afterwards. Thread: any; the
// order of what several threads give is that of arrival.
#pragma once

#include <span>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/device/values.h>

namespace towpath::device {

/// A mark in a stream, which others can wait for.
///
/// It stands for the last record() made of it (Stream::record). One that was never recorded is
/// done, and waiting for it is no work. Thread: any.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;

  /// Whether all work before the last record has been done. Errors: that work's.
  virtual Result<bool> is_done() const = 0;
  /// Returns when it is. Errors: as above.
  virtual Status wait() const = 0;
  /// Device time between two timed events that are done, `earlier` being the first.
  /// Errors: invalid_argument (not timed, never recorded, or of another driver), not_ready.
  virtual Result<Duration> since(const Event& earlier) const = 0;
};

class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  /// Host memory that is not pinned may be copied before this returns. Errors: invalid_argument.
  virtual Status copy(const Copy& what) = 0;
  /// The same for many, in no order among them. Cost: one call of the driver where it has one for
  /// this. Errors: as above; none or some of them may have been given.
  virtual Status copy_batch(std::span<const Copy> copies) = 0;
  /// Errors: invalid_argument (a pitch below the width).
  virtual Status copy_2d(const Copy2d& what) = 0;
  /// By a kernel on the device's own cores, in no order among them. All is memory that the device
  /// reaches: its own, an enabled peer's, or pinned. Few launches, however many boxes and pieces.
  /// Errors: unsupported (Device::has_box_kernel(), or a box of 2^32 lanes; none was given),
  /// invalid_argument (a null address, too many dimensions; none was given).
  virtual Status copy_boxes(std::span<const BoxCopy> boxes) = 0;
  /// Of device or pinned memory.
  virtual Status fill(const Fill& what) = 0;
  /// Into memory that the device reaches. Who sees the value, a kernel that runs included, sees all
  /// bytes of what was given before. Errors: invalid_argument (a null or odd address), unsupported
  /// (a driver before CUDA 11.7, or a device that cannot).
  virtual Status write_word(const WordWrite& what) = 0;
  virtual Status run(HostFunction function) = 0;

  /// `event` now stands for this place in the stream.
  virtual Status record(Event& event) = 0;
  /// What is given later waits for the last record of `event` up to now; it may be of any stream.
  virtual Status wait(const Event& event) = 0;

  /// Errors: the first of the work's.
  virtual Result<bool> is_idle() const = 0;
  /// Whatever it returns, no byte of what was given moves afterwards. Errors: as above; the
  /// driver's.
  virtual Status synchronize() = 0;

  /// What other libraries of the driver's know it by: a CUstream. Of the host device: this Stream.
  virtual void* native() noexcept = 0;
};

}  // namespace towpath::device
