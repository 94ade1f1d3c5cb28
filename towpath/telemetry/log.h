// Log: a sink, a clock and the name of who speaks, in a value that is handed down.
//
//   Log log(sink, clock, "agent decode-0");
//   log.warning("peer lost", {{"peer", name}, {"transfers", cat(count)}});
//
// A default-made Log is silent, so that a class with a log needs no null checks.
// Each place in the code that logs has a limit of its own, which all copies of a Log share: the
// first lines of a flood are written, then one per second, with the number that was suppressed. So
// nothing that a peer causes, however often, fills a disk, and no place has to think of it.
// Thread: any; copies are cheap enough for the control plane (one string).
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/clock.h>

namespace towpath::telemetry {

// EventSink: where the library reports what happened. The only log that Towpath has.
//
// An event is a value: a level, a time, who speaks, a sentence, and the values involved. A sink
// that prints, sends or counts events is written by the user or lives in `standard/`; here are the
// two that need nothing from outside. Events are for people and for rare things: the data path has
// counters and the flight recorder.
// Thread: any; emit() may be called from several threads at once.
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

// RateLimiter: lets the first few of many equal messages through, and says how many it held back.
//
// A bucket of `burst` messages that fills at one per `every`. A place in the code that a peer can
// make speak owns one of these.
// Thread: any. No lock.
class RateLimiter {
 public:
  struct Options {
    std::uint32_t burst = 5;                   ///< at least 1
    Duration every = std::chrono::seconds(1);  ///< 0 or less: no limit
  };

  /// `clock` must outlive the limiter.
  RateLimiter(const Clock& clock, Options options) noexcept;
  explicit RateLimiter(const Clock& clock) noexcept : RateLimiter(clock, Options{}) {}

  /// Whether this message may be said. A refusal is counted.
  bool admit() noexcept;
  /// How many were refused since this was last asked. Ask after an admit() and say it too.
  std::uint64_t take_suppressed() noexcept;

 private:
  const Clock* clock_;
  Options options_;
  // When the bucket will be full again. Relaxed, without a partner: it guards no other memory.
  std::atomic<std::int64_t> full_at_;
  std::atomic<std::uint64_t> suppressed_{0};
};

class Log {
 public:
  using Fields = std::initializer_list<Field>;
  using Place = std::source_location;

  /// Of each place in the code.
  static constexpr RateLimiter::Options kLimit{.burst = 10, .every = std::chrono::seconds(1)};

  Log() noexcept = default;
  /// `sink` and `clock` must outlive the log and all its copies.
  Log(EventSink& sink, const Clock& clock, std::string component);
  /// The same sink, clock and limits, with another component.
  Log named(std::string component) const;

  bool wants(Level level) const noexcept { return sink_ != nullptr && sink_->wants(level); }
  /// Writes the line unless its place has written too many: then the next line of that place, or
  /// the end of the last copy, has a field "suppressed" with their number.
  void say(Level level, std::string_view message, Fields fields = {},
           const Place& place = Place::current()) const;
  void debug(std::string_view message, Fields fields = {},
             const Place& place = Place::current()) const;
  void info(std::string_view message, Fields fields = {},
            const Place& place = Place::current()) const;
  void warning(std::string_view message, Fields fields = {},
               const Place& place = Place::current()) const;
  void error(std::string_view message, Fields fields = {},
             const Place& place = Place::current()) const;
  /// Writes how many lines were suppressed, of each place that has suppressed some: before an end
  /// of the sink that a copy may outlive.
  void report_suppressed() const;
  /// Writes it always: for a list that this process's own user caused, as of unknown settings.
  void say_unlimited(Level level, std::string_view message, Fields fields = {}) const;

 private:
  class Limits;
  Event event(Level level, std::string_view message, Fields fields) const;

  EventSink* sink_ = nullptr;
  const Clock* clock_ = nullptr;
  std::string component_;
  std::shared_ptr<Limits> limits_;
};

}  // namespace towpath::telemetry
