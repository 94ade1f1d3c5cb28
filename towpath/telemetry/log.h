// Log: a sink, a clock and the name of who speaks, in a value that is handed down.
//
//   Log log(sink, clock, "agent decode-0");
//   log.warning("peer lost", {{"peer", name}, {"transfers", cat(count)}});
//
// A default-made Log is silent, so that a class with a log needs no null checks.
// Thread: any; copies are cheap enough for the control plane (one string).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <towpath/telemetry/event_sink.h>
#include <towpath/telemetry/rate_limiter.h>

namespace towpath::telemetry {

class Log {
 public:
  using Fields = std::initializer_list<Field>;

  Log() noexcept = default;
  /// `sink` and `clock` must outlive the log and all its copies.
  Log(EventSink& sink, const Clock& clock, std::string component)
      : sink_(&sink), clock_(&clock), component_(std::move(component)) {}
  /// The same sink and clock, with another speaker.
  Log named(std::string component) const;

  bool wants(Level level) const noexcept { return sink_ != nullptr && sink_->wants(level); }
  void say(Level level, std::string_view message, Fields fields = {}) const;
  void debug(std::string_view message, Fields fields = {}) const;
  void info(std::string_view message, Fields fields = {}) const;
  void warning(std::string_view message, Fields fields = {}) const;
  void error(std::string_view message, Fields fields = {}) const;

  /// Says it if `limiter` admits it, with a field "suppressed" when others were held back before.
  void say_limited(RateLimiter& limiter, Level level, std::string_view message,
                   Fields fields = {}) const;

 private:
  EventSink* sink_ = nullptr;
  const Clock* clock_ = nullptr;
  std::string component_;
};

}  // namespace towpath::telemetry
