// EventSink: where the library reports what happened. The only log that Towpath has.
//
// An event is a value: a level, a time, who speaks, a sentence, and the values involved. A sink
// that prints, sends or counts events is written by the user or lives in `standard/`; here are the
// two that need nothing from outside. Events are for people and for rare things: the data path has
// counters and the flight recorder.
// Thread: any; emit() may be called from several threads at once.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/clock.h>

namespace towpath::telemetry {

enum class Level : std::uint8_t { trace = 0, debug = 1, info = 2, warning = 3, error = 4 };

/// "trace", "debug", "info", "warning", "error"; "unknown" for a number that is none.
std::string_view name_of(Level level) noexcept;

struct Field {
  std::string key;
  std::string value;

  friend bool operator==(const Field&, const Field&) = default;
};

struct Event {
  Level level = Level::info;
  Instant at;             ///< on the clock of the one who speaks
  Duration since_epoch;   ///< wall time, for people
  std::string component;  ///< "agent decode-0", "rendezvous.listener"
  std::string message;    ///< a sentence; it may quote bytes from outside, made printable
  std::vector<Field> fields;
};

/// One line: "warning rendezvous.listener: client dropped {reason=idle, bytes=12}".
std::string to_string(const Event& event);

class EventSink {
 public:
  virtual ~EventSink() = default;
  /// Takes the event or drops it; must not block for long, and must not call back into the library.
  virtual void emit(const Event& event) noexcept = 0;
  /// Whether events of this level are of any use. Asked before an event is put together.
  virtual bool wants(Level) const noexcept { return true; }
};

/// Wants nothing.
class NullSink final : public EventSink {
 public:
  void emit(const Event&) noexcept override {}
  bool wants(Level) const noexcept override { return false; }
};

/// Keeps what is reported to it, for tests. Beyond `limit` events the newest are dropped, and
/// counted.
class CollectingSink final : public EventSink {
 public:
  explicit CollectingSink(std::size_t limit = 10'000) noexcept : limit_(limit) {}

  void emit(const Event& event) noexcept override;
  std::vector<Event> events() const;
  std::size_t dropped() const;
  /// How many messages contain `text`.
  std::size_t count_of(std::string_view text) const;
  void clear();

 private:
  const std::size_t limit_;
  // Plain std::mutex: the annotated one lives in run/, which stands below this module.
  mutable std::mutex mutex_;
  std::vector<Event> events_;
  std::size_t dropped_ = 0;
};

}  // namespace towpath::telemetry
