// HostEvent: an event of the host driver. Private to this folder.
//
// Each record() gets a number; its slot holds the lower half of it once the stream has passed it.
// So a waiter that holds the number of one record is not fooled by a later one, whichever stream is
// faster. An interprocess event keeps its marks in a memfd, where the other process maps them.
// Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include <towpath/device/stream.h>
#include <towpath/device/values.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/mapping.h>

namespace towpath::device {

class HostEvent final : public Event {
 public:
  static constexpr std::uint32_t kSlots = 256;  ///< records of one event that are under way

  struct Marks {
    std::atomic<std::uint64_t> recorded{0};  // the number of the last record; 0: none
    std::array<std::atomic<std::uint32_t>, kSlots> done{};
    std::atomic<std::int64_t> done_at{0};
  };

  /// One record of an event, which outlives it.
  class Mark {
   public:
    /// Release: pairs with the acquire in is_done().
    void set_done(std::int64_t now) const noexcept;
    bool is_done() const noexcept;
    void wait() const noexcept;

   private:
    friend class HostEvent;
    Mark(std::shared_ptr<Marks> marks, std::uint64_t number)
        : marks_(std::move(marks)), number_(number) {}
    std::atomic<std::uint32_t>& slot() const noexcept { return marks_->done[number_ % kSlots]; }
    bool is_behind(std::uint32_t seen) const noexcept {
      return static_cast<std::int32_t>(seen - static_cast<std::uint32_t>(number_)) < 0;
    }

    std::shared_ptr<Marks> marks_;
    std::uint64_t number_;  // 0: never recorded, so done
  };

  static Result<std::shared_ptr<HostEvent>> create(const EventOptions& options);
  static Result<std::shared_ptr<HostEvent>> import(const IpcHandle& handle);

  HostEvent(std::shared_ptr<Marks> marks, sys::Fd fd, bool timed)
      : marks_(std::move(marks)), fd_(std::move(fd)), timed_(timed) {}

  Result<bool> is_done() const override { return last().is_done(); }
  Status wait() const override;
  Result<Duration> since(const Event& earlier) const override;

  /// A new record. Errors: exhausted (kSlots records of it are not done).
  Result<Mark> next();
  Mark last() const;
  Result<IpcHandle> handle() const;

 private:
  std::shared_ptr<Marks> marks_;
  sys::Fd fd_;  // interprocess only
  const bool timed_;
};

}  // namespace towpath::device
