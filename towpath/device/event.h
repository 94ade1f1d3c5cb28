// Event: a mark in a stream, which others can wait for.
//
// It stands for the last record() made of it (Stream::record). One that was never recorded is done,
// and waiting for it is no work.
// Thread: any.
#pragma once

#include <towpath/core/clock.h>
#include <towpath/core/result.h>

namespace towpath::device {

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

}  // namespace towpath::device
