// HostStream: a thread that does what it is given, in order. Private to this folder.
// Thread: any.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include <towpath/core/clock.h>
#include <towpath/device/stream.h>
#include <towpath/run/mutex.h>
#include <towpath/run/worker.h>

namespace towpath::device {

class Device;

class HostStream final : public Stream {
 public:
  /// `clock` is for timed events; `device` is kept alive.
  static Result<std::shared_ptr<HostStream>> create(std::shared_ptr<Device> device,
                                                    const Clock& clock);
  HostStream(std::shared_ptr<Device> device, const Clock& clock)
      : device_(std::move(device)), clock_(clock) {}
  ~HostStream() override;

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
  void* native() noexcept override { return static_cast<Stream*>(this); }

 private:
  using Work = std::function<void()>;

  void give(Work work);
  /// The thread. Ends when it is asked to and nothing is left.
  void serve();
  /// The next work; nothing at the end.
  std::optional<Work> next();
  void passed();

  const std::shared_ptr<Device> device_;
  const Clock& clock_;
  mutable run::Mutex mutex_;
  run::CondVar changed_;
  std::deque<Work> queue_ TOWPATH_GUARDED_BY(mutex_);
  std::uint64_t given_ TOWPATH_GUARDED_BY(mutex_) = 0;
  std::uint64_t done_ TOWPATH_GUARDED_BY(mutex_) = 0;
  bool closing_ TOWPATH_GUARDED_BY(mutex_) = false;
  std::optional<run::Worker> worker_;  // dies first
};

/// Errors: invalid_argument (a null address with a length; rows that overlap).
Status check(const Copy& what);
Status check(const Copy2d& what);
/// Errors: invalid_argument (a null address, or one that is no multiple of 8).
Status check(const WordWrite& what);

}  // namespace towpath::device
