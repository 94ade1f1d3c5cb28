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

#include <initializer_list>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>

#include <towpath/telemetry/event_sink.h>
#include <towpath/telemetry/rate_limiter.h>

namespace towpath::telemetry {

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
